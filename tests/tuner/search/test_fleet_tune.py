"""The main job on a fleet: what it leaves, shows, exports and refuses."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from profiler.engines.base import Engine, EngineSpec
from profiler.errors import LinkError, StudyError
from profiler.traffic.trace import Trace
from tuner.candidate import Evidence
from tuner.cli.app import main
from tuner.cli.report import print_results, verdict_line
from tuner.export.bundle import BundleOptions, bundle, launch_plan
from tuner.export.from_results import deployment_of
from tuner.fleet_plan import plan_of
from tuner.results import Results, RunFolder, Verdict
from tuner.search.progress import SilentUi
from tuner.search.tune import TuneOptions, confirm_again, fingerprint, tune
from tuner.study import load_study

STUDY = """
name: small-fleet
traffic: {like: azure-conv-2023, rate_rps: 12.0, duration_s: 20, max_prompt_tokens: 1500,
          max_output_tokens: 16, seed: 1}
engine: {name: fake, model: none, config: {max_model_len: 4096}}
profile: {budget_s: 40}
slo: {default: {ttft_p99_s: 2.0, itl_p99_s: 0.06}}
search:
  trials: 9
  windows: 2
  space: {max_num_batched_tokens: {low: 128, high: 2048, log: true}}
validate: {top: 1}
fleet:
  gpus: 4
  requests: 100
  routers: [round-robin]
  link: {latency_s: 0.001, bytes_per_s: 1000000000}
"""


def no_engine(spec: EngineSpec) -> Engine:
    raise AssertionError(f"no engine should be started, got {spec}")


@pytest.fixture(scope="module")
def study_file(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of four replicas, each as the small study's profile says."""
    path = tmp_path_factory.mktemp("fleet") / "fleet.yaml"
    plain = yaml.safe_load(STUDY)
    plain["profile"] = {"path": str(finished_run / "profile")}
    path.write_text(yaml.safe_dump(plain))
    return path


@pytest.fixture(scope="module")
def run(study_file: Path) -> RunFolder:
    """A finished run of it; read it, do not change it."""
    folder = RunFolder(study_file.parent / "run")
    tune(load_study(study_file), folder, TuneOptions(study_file, start=no_engine), SilentUi())
    return folder


@pytest.fixture(scope="module")
def results(run: RunFolder) -> Results:
    return run.load_results()


def as_mode(results: Results, mode: str) -> Results:
    """`results` whose recommended fleet is of `mode`."""
    of_mode = [c for c in results.candidates if c.settings["mode"] == mode]
    return replace(results, recommended=of_mode[-1])


def test_what_a_run_of_fleets_holds(results: Results) -> None:
    assert results.verdict is Verdict.PREDICTED and results.evidence is Evidence.PREDICTED
    assert results.fleet is not None and results.fleet["max_gpus"] == 4
    assert results.fleet["searched_requests"] == 100 < results.fleet["requests"]
    assert results.trials == 9
    assert results.default.settings["mode"] == "aggregated"
    modes = {c.settings["mode"] for c in results.candidates}
    assert modes == {"aggregated", "disaggregated"}  # the best of each is there to compare
    for candidate in results.candidates:
        plan = candidate.plan
        assert plan is not None and candidate.predicted is not None
        assert candidate.predicted["num_requests"] == results.fleet["requests"]
        assert candidate.predicted["num_windows"] == 2
        assert set(candidate.use) == set(candidate.resolved) == {p.role for p in plan.pools}
        for pool in plan.pools:
            use = candidate.use[pool.role]
            assert sum(use["requests"]) == results.fleet["requests"]
            assert len(use["requests"]) == pool.replicas
            assert 0 < use["load"] < 2
        per_gpu = candidate.predicted["goodput_rps"] / plan.num_gpus
        assert results.per_gpu(candidate) == pytest.approx(per_gpu)
    assert Results.from_dict(json.loads(json.dumps(results.to_dict()))) == results


def test_resume_adds_nothing(study_file: Path, run: RunFolder, results: Results) -> None:
    options = TuneOptions(study_file, resume=True, start=no_engine)
    again = tune(load_study(study_file), run, options, SilentUi())
    assert replace(again, provenance=results.provenance) == results


def test_another_fleet_is_another_run(study_file: Path) -> None:
    study = load_study(study_file)
    other = study.fleet.model_copy(update={"requests": 200}) if study.fleet else None
    assert fingerprint(study) != fingerprint(study.model_copy(update={"fleet": other}))


def test_the_report_is_readable(results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    print_results(results, Console(width=160))
    out = capsys.readouterr().out
    for text in ("replicas", "per GPU", "engine default", "front of the search", "nothing was"):
        assert text in out
    assert any(f"{p}P:{4 - p}D" in out for p in (1, 2, 3))
    assert "the busiest 100 of" in out
    line = verdict_line(results)
    assert "Predicted only" in line and "stallfree confirm" not in line


def test_what_is_exported(results: Results) -> None:
    for mode in ("aggregated", "disaggregated"):
        of_mode = as_mode(results, mode)
        plan = of_mode.recommended.plan
        assert plan is not None
        pools = deployment_of(of_mode).pools
        for pool, setup in zip(pools, plan.pools, strict=True):
            assert (pool.label, pool.replicas) == (setup.role, setup.replicas)
            for name, value in setup.settings.items():
                assert pool.flags[name.replace("_", "-")] == value
    page = bundle(of_mode, BundleOptions())["EVIDENCE.md"]
    assert "by its figures, 1 GB/s, 1 ms" in page and plan.words() in page


def test_one_replica_is_launched_with_its_share(run: RunFolder, results: Results) -> None:
    plan, trace = launch_plan(run, "0", 10.0), Trace.load(run.trace).slice(0.0, 10.0)
    assert plan.deployment.num_replicas == 4  # the engine default
    assert plan.trace.num_requests == -(-trace.num_requests // 4)
    assert plan.trace.prompt_tokens.tolist() == trace.prompt_tokens[::4].tolist()
    assert plan.settings == {"max_model_len": 4096}
    assert plan.resolved == results.default.resolved["aggregated"]


def test_confirming_pretends_nothing(study_file: Path, run: RunFolder) -> None:
    with pytest.raises(StudyError, match="it stays predicted"):
        confirm_again(load_study(study_file), run, SilentUi(), again=False, start=no_engine)


def test_an_unknown_link_is_found_before_the_search(study_file: Path, tmp_path: Path) -> None:
    study = load_study(study_file)
    assert study.fleet is not None
    link = study.fleet.link.model_copy(update={"name": "string", "latency_s": None})
    bad = study.model_copy(update={"fleet": study.fleet.model_copy(update={"link": link})})
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(LinkError, match="no link and no file is named 'string'"):
        tune(bad, folder, TuneOptions(study_file, start=no_engine), SilentUi())
    assert not folder.database.exists()


def test_commands(
    study_file: Path,
    run: RunFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stallfree(*words: Any) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["stallfree", *map(str, words)])
        code: Any = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        return code, *capsys.readouterr()

    code, out, _ = stallfree("tune", study_file, "--out", run.path, "--resume", "--json")
    plain = json.loads(out)
    assert code == 0 and plain["fleet"]["max_gpus"] == 4
    assert plain["num_gpus"] == 4 and plain["goodput_per_gpu_rps"]["recommended"] > 0
    assert plain["bundle"] == str(run.bundle) and (run.bundle / "EVIDENCE.md").exists()
    code, out, _ = stallfree("export", run.path, "--pick", "1", "--json", "-o", tmp_path / "b")
    assert code == 0 and "EVIDENCE.md" in json.loads(out)["files"]
    code, out, _ = stallfree("show", run.path)
    assert code == 0 and "fleets on all traffic" in out
    for words in (("confirm", study_file, "--out", run.path), ("simulate", study_file)):
        code, _, err = stallfree(*words)
        assert code == 2 and err.startswith("error: ") and err.count("\n") == 1


def test_dashboard_rows(results: Results) -> None:
    from dashboard import data

    rows = data.confirmed(results)
    assert list(rows["GPUs"]) == [4] * len(results.candidates)
    recommended = plan_of(results.recommended.settings)
    assert recommended is not None and recommended.words() in list(rows["fleet"])
    assert all(text.startswith(("aggregated", "disaggregated")) for text in
               data.trials(results)["settings"])  # fmt: skip
