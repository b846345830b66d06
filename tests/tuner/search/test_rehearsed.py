"""Rehearsed confirmation: no speed correction, refused when late, named for what it is.

A fake engine stands for the rehearsed vLLM; the real one is in tests/profiler/engines.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dashboard import tables
from profiler.engine_config import EngineConfig
from profiler.engines import start_engine
from profiler.engines.base import Engine, EngineSpec
from profiler.engines.rehearsal import REHEARSED
from profiler.errors import EvidenceError
from profiler.outcomes import LateSteps, TokenTimes
from tuner.candidate import Evidence
from tuner.cli.report import print_results
from tuner.export.bundle import BundleOptions, bundle
from tuner.results import Results, RunFolder
from tuner.schema import Study
from tuner.search.progress import SilentUi
from tuner.search.rehearsed import confirming_spec
from tuner.search.tune import TuneOptions, tune
from tuner.study import load_study, overridden

ROOT = Path(__file__).resolve().parents[3]
IN_TIME = LateSteps(num_steps=1000, num_late=10, late_s=0.1, modelled_s=10.0)
LATE = LateSteps(num_steps=1000, num_late=200, late_s=1.0, modelled_s=10.0)
ONE_LONG_STALL = LateSteps(num_steps=1000, num_late=1, late_s=1.0, modelled_s=10.0)


class Stage:
    """Starts fake engines that call themselves a rehearsal and tell of these late steps."""

    def __init__(self, steps: LateSteps) -> None:
        self.steps = steps
        self.specs: list[EngineSpec] = []

    def __call__(self, spec: EngineSpec) -> Engine:
        self.specs.append(spec)
        engine = start_engine(EngineSpec("fake", "none", spec.config))
        engine.facts = replace(engine.facts, engine="rehearsal", version="0.32.0")
        play = engine.replay

        def replay(*args: Any, **options: Any) -> TokenTimes:
            return replace(play(*args, **options), late_steps=self.steps)

        engine.replay = replay  # type: ignore[method-assign]
        return engine


@pytest.fixture(scope="module")
def study(small_study: Path, finished_run: Path) -> Study:
    """The small study, rehearsed from a finished profile."""
    changes = {
        "engine.name": "rehearsal",
        "profile.path": finished_run / "profile",
        "search.trials": 3,
    }
    return overridden(load_study(small_study), changes)


def rehearse(study: Study, study_file: Path, folder: Path, stage: Stage) -> Results:
    return tune(study, RunFolder(folder), TuneOptions(study_file, start=stage), SilentUi())


@pytest.fixture(scope="module")
def stage() -> Stage:
    """The one that played `rehearsed`."""
    return Stage(IN_TIME)


@pytest.fixture(scope="module")
def rehearsed(
    study: Study, small_study: Path, stage: Stage, tmp_path_factory: pytest.TempPathFactory
) -> Results:
    return rehearse(study, small_study, tmp_path_factory.mktemp("rehearsed") / "run", stage)


def test_it_plays_the_studys_profile(study: Study, stage: Stage, rehearsed: Results) -> None:
    assert {s.engine for s in stage.specs} == {rehearsed.engine["name"]} == {"rehearsal"}
    assert {s.engine_args["latency_model"] for s in stage.specs} == {study.profile.path}


def test_a_rehearsal_has_no_machine_speed(rehearsed: Results) -> None:
    for candidate in rehearsed.candidates:
        assert candidate.measured == candidate.corrected
        assert {r["speed"] for r in candidate.replays} == {1.0}
        assert candidate.replays[0]["fidelity"]["steps"]["num_late"] == 10


@pytest.mark.parametrize("steps", [LATE, ONE_LONG_STALL])
def test_a_late_rehearsal_is_refused(
    study: Study, small_study: Path, tmp_path: Path, steps: LateSteps
) -> None:
    with pytest.raises(EvidenceError) as caught:
        rehearse(study, small_study, tmp_path / "run", Stage(steps))
    message = str(caught.value)
    assert "\n" not in message
    assert "at most 2% of its steps end late and cost at most 2% of its time" in message
    assert f"got {steps.late_share:.1%} late by {1e3 * steps.mean_late_s:.1f} ms" in message
    assert "lower the request rate, or replay a smaller slice" in message


def test_every_output_says_rehearsed(rehearsed: Results) -> None:
    assert rehearsed.evidence is Evidence.REHEARSED
    plain = rehearsed.to_dict()
    assert plain["note"] == REHEARSED
    assert Results.from_dict(json.loads(json.dumps(plain))) == rehearsed
    console = Console(width=300, record=True, file=io.StringIO())
    print_results(rehearsed, console)
    shown = " ".join(console.export_text().split())  # a table's title goes over two lines
    files = bundle(rehearsed, BundleOptions())
    assert REHEARSED in shown
    assert REHEARSED in files["evidence.json"]
    assert f"# Figures: {REHEARSED}." in files["command.sh"]
    sources = " ".join(tables.confirmed(rehearsed)["source"])
    for text in (shown, json.dumps(plain), *files.values(), sources):
        assert "measured" not in text


def test_a_measured_run_says_measured(finished_run: Path) -> None:
    results = RunFolder(finished_run).load_results()
    assert results.evidence is Evidence.MEASURED
    assert "measured" in results.to_dict()["default"]


def test_the_bundle_has_no_latency_model_for_vllm(
    study: Study, small_study: Path, tmp_path: Path
) -> None:
    named = overridden(study, {"engine.args": {"latency_model": "example-8b", "seed": 3}})
    stage = Stage(IN_TIME)
    results = rehearse(named, small_study, tmp_path / "run", stage)
    assert {s.engine_args["latency_model"] for s in stage.specs} == {"example-8b"}
    assert results.engine["args"] == {"seed": 3}
    assert "latency" not in bundle(results, BundleOptions())["vllm.yaml"].split("\n", 3)[3]


def test_a_latency_model_file_is_found_beside_the_study(small_study: Path) -> None:
    path = small_study.with_name("rehearse.yaml")
    text = small_study.read_text().replace("name: fake,", "name: rehearsal, args: ARGS,")
    (small_study.parent / "step_time.json").write_text("{}")
    for given, expected in (
        ("step_time.json", str(small_study.parent / "step_time.json")),
        ("example-8b", "example-8b"),
    ):
        path.write_text(text.replace("ARGS", f"{{latency_model: {given}}}"))
        assert load_study(path).engine.args["latency_model"] == expected


def test_a_profile_made_without_an_engine_is_rehearsed(study: Study, tmp_path: Path) -> None:
    real = overridden(study, {"engine.name": "vllm", "engine.args": {"seed": 3}})
    config, folder = EngineConfig(max_num_seqs=7), RunFolder(tmp_path / "run")
    facts = {"silicon": {"package": "any"}, "model": str(tmp_path)}
    spec = confirming_spec(real, facts, folder, config)
    assert (spec.engine, spec.config, spec.model) == ("rehearsal", config, str(tmp_path))
    assert spec.engine_args == {"latency_model": study.profile.path, "seed": 3}
    assert confirming_spec(real, {}, folder, config) == real.engine_spec(config)


def test_a_config_json_alone_is_model_enough(study: Study, tmp_path: Path) -> None:
    config_json = tmp_path / "tiny.json"
    config_json.write_bytes((ROOT / "studies/models/tiny-llama/config.json").read_bytes())
    folder = RunFolder(tmp_path / "run")
    facts = {"silicon": {"package": "any"}, "model": str(config_json)}
    spec = confirming_spec(study, facts, folder, EngineConfig())
    assert spec.model == str(folder.model)
    assert (folder.model / "config.json").read_bytes() == config_json.read_bytes()
