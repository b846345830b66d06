"""Runs whose profile was made without an engine: honest to the end, and never a crash."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from fake_problem import fake_problem
from test_rehearsed import IN_TIME, ROOT, Stage

from profiler.collect import Profile
from profiler.engine_config import EngineConfig
from profiler.engines.base import Engine, EngineSpec
from profiler.errors import SimulationError
from tuner.candidate import Evidence, Verdict
from tuner.cli.report import print_results, verdict_line
from tuner.export.bundle import BundleOptions, bundle
from tuner.results import Results, RunFolder
from tuner.search.objective import blocks_by_budget
from tuner.search.pareto import Trial
from tuner.search.predicted import predicted_candidates
from tuner.search.progress import SilentUi
from tuner.search.recommend import recommend_predicted
from tuner.search.tune import TuneOptions, confirm_again, tune
from tuner.study import load_study, overridden

TABLE = ((1024, 900), (8192, 700))


def no_engine(spec: EngineSpec) -> Engine:
    raise AssertionError(f"no engine should be started, got {spec}")


@pytest.fixture(scope="module")
def predicted_profile(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small study's profile, said to come from published measurements."""
    made = Profile.load(finished_run / "profile")
    facts = {k: v for k, v in made.facts.items() if not k.startswith("sentinel")}
    place = tmp_path_factory.mktemp("predicted") / "profile"
    facts |= {"silicon": {}, "kv_blocks_by_budget": TABLE}
    facts |= {"model": str(ROOT / "studies/models/tiny-llama")}
    replace(made, facts=facts).save(place)
    return place


@pytest.fixture(scope="module")
def results(small_study: Path, predicted_profile: Path) -> Results:
    study = overridden(load_study(small_study), {"profile.path": predicted_profile})
    folder = RunFolder(predicted_profile.parent / "run")
    tune(study, folder, TuneOptions(small_study, start=no_engine), SilentUi())
    return folder.load_results()


def test_a_run_without_an_engine_says_so(results: Results) -> None:
    assert results.verdict is Verdict.PREDICTED and results.evidence is Evidence.PREDICTED
    assert Results.from_dict(results.to_dict()) == results
    assert [c.label for c in results.candidates] == ["default", "candidate-1"]
    assert all(c.measured is None and c.predicted for c in results.candidates)
    assert results.recommended.resolved["max_num_seqs"] > 0
    assert results.meets_slo is (results.misses == {})


def test_every_output_says_that_nothing_was_measured(results: Results, capsys) -> None:
    from rich.console import Console

    print_results(results, Console(width=200))
    assert "predicted; nothing was measured" in capsys.readouterr().out
    assert verdict_line(results).startswith("Predicted only, not measured (8 configurations tried)")
    missed = replace(results, meets_slo=False, misses={"default.itl_p99_s": 0.25})
    assert "would miss default.itl_p99_s by 25 %" in verdict_line(missed)
    files = bundle(results, BundleOptions())
    assert "WAS NOT MEASURED" in files["vllm.yaml"] and "WAS NOT MEASURED" in files["command.sh"]
    assert "# Figures: nothing was measured." in files["vllm.yaml"]
    assert not any("rehearsed" in text for text in files.values())
    assert json.loads(files["evidence.json"])["evidence"] == "nothing was measured"


def test_goodput_per_gpu_where_the_gpus_are_known(results: Results) -> None:
    assert results.num_gpus is None and results.per_gpu(results.default) is None
    engine = results.provenance["engine"] | {"num_gpus": 4}
    on_four = replace(results, provenance=results.provenance | {"engine": engine})
    assert results.default.predicted is not None
    expected = results.default.predicted["goodput_rps"] / 4
    assert on_four.to_dict()["goodput_per_gpu_rps"]["default"] == expected
    assert Results.from_dict(on_four.to_dict()) == on_four


def test_confirming_it_is_a_rehearsal(
    small_study: Path, predicted_profile: Path, results: Results, tmp_path: Path
) -> None:
    study = overridden(load_study(small_study), {"profile.path": predicted_profile})
    folder = RunFolder(tmp_path / "run")
    shutil.copytree(predicted_profile.parent / "run", folder.path)
    stage = Stage(IN_TIME)
    confirmed = confirm_again(study, folder, SilentUi(), again=False, start=stage)
    assert {spec.engine for spec in stage.specs} == {"rehearsal"}
    assert confirmed.evidence is Evidence.REHEARSED
    assert confirmed.verdict is not Verdict.PREDICTED
    assert all(c.measured for c in confirmed.candidates)
    assert folder.load_results() == confirmed


def test_kv_blocks_follow_the_token_budget() -> None:
    problem = replace(fake_problem(), kv_blocks_by_budget=TABLE)

    def blocks(**settings: int) -> int:
        return problem.kv_blocks(EngineConfig(**settings))

    assert blocks(max_num_batched_tokens=4608) == 800
    assert blocks(max_num_batched_tokens=64) == 900
    assert blocks(max_num_batched_tokens=99_999) == 700
    assert blocks(max_num_batched_tokens=4608, num_gpu_blocks_override=5) == 5
    assert fake_problem().kv_blocks(EngineConfig(max_num_batched_tokens=64)) == 1000
    assert blocks_by_budget({"kv_blocks_by_budget": [[1024, 900], [8192, 700]]}) == TABLE
    assert blocks_by_budget({}) == ()


def test_the_best_prediction_is_recommended() -> None:
    problem = fake_problem()
    settings = [{"max_num_batched_tokens": b, "max_num_seqs": 50} for b in (4096, 900, 300)]
    configs = [EngineConfig.from_settings(s) for s in settings]
    trials = [
        Trial(i, s, problem.evaluate(c))
        for i, (s, c) in enumerate(zip(settings, configs, strict=True))
    ]
    found = predicted_candidates(problem, trials, top=2)
    assert [c.label for c in found] == ["default", "candidate-1", "candidate-2"]
    recommendation = recommend_predicted(found)
    assert recommendation.verdict is Verdict.PREDICTED
    assert recommendation.chosen.settings == settings[1]
    assert recommendation.misses == {}
    refused = [Trial(0, settings[0], None, refused="no room")]
    with pytest.raises(SimulationError, match="no configuration could be predicted: no room"):
        recommend_predicted(predicted_candidates(problem, refused, top=2))
