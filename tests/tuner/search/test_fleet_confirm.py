"""A run of fleets confirmed: what is rehearsed, kept, decided and said.

A made-up deployment stands for the real servers, but for the test marked `engine`.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from dashboard import tables
from profiler.engines.rehearsal import REHEARSED
from profiler.errors import EngineDiedError, EvidenceError, StudyError
from profiler.replay import Replay
from tests.tuner.search.conftest import tuned, write_fleet_study
from tests.tuner.search.made_deployment import Stage
from tuner.candidate import Evidence, Verdict
from tuner.cli.app import main
from tuner.cli.report import print_results, verdict_line
from tuner.export.bundle import BundleOptions, bundle
from tuner.fleet_plan import FleetPlan
from tuner.results import Results, RunFolder
from tuner.schema import Study
from tuner.search.fleet_confirm import choose, confirm_fleet
from tuner.search.fleet_tune import Scored
from tuner.search.progress import SilentUi
from tuner.search.tune import confirm_again
from tuner.study import load_study

MODEL = Path(__file__).resolve().parents[3] / "studies/models/tiny-llama"


@pytest.fixture(scope="module")
def study(fleet_study: Path) -> Study:
    return load_study(fleet_study)


@pytest.fixture
def folder(fleet_run: RunFolder, tmp_path: Path) -> RunFolder:
    """A copy of the finished run."""
    shutil.copytree(fleet_run.path, tmp_path / "run")
    return RunFolder(tmp_path / "run")


def confirmed(study: Study, folder: RunFolder, stage: Stage, *, again: bool = False) -> Results:
    return confirm_fleet(study, folder, SilentUi(), again=again, deploy=stage)


@pytest.fixture(scope="module")
def rehearsed(
    study: Study, fleet_run: RunFolder, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunFolder, Results, Stage]:
    """A confirmed run; read it, do not change it."""
    folder = RunFolder(tmp_path_factory.mktemp("confirmed") / "run")
    shutil.copytree(fleet_run.path, folder.path)
    stage = Stage()
    return folder, confirmed(study, folder, stage), stage


def test_default_recommended_and_the_best_of_the_other_mode(
    fleet_run: RunFolder, rehearsed: tuple[RunFolder, Results, Stage]
) -> None:
    folder, results, _ = rehearsed
    before = fleet_run.load_results()
    seen = [c for c in results.candidates if c.measured is not None]
    assert {results.default.label, before.recommended.label} <= {c.label for c in seen}
    assert {c.settings["mode"] for c in seen} == {"aggregated", "disaggregated"}
    assert results.evidence is Evidence.REHEARSED
    assert results.verdict in (Verdict.MET, Verdict.DEFAULT_IS_BEST)
    assert results.recommended in seen and results.meets_slo
    assert results.fleet is not None and results.fleet["rehearsed"]["rounds"] == 2
    num = results.fleet["rehearsed"]["requests"]
    assert 0 < num < results.fleet["requests"]
    for candidate in seen:
        assert candidate.predicted is not None and candidate.measured is not None
        assert candidate.predicted["num_requests"] == candidate.measured["num_requests"] == 2 * num
        assert candidate.predicted["num_windows"] == 2
        assert candidate.measured == candidate.corrected and candidate.failure is None
        assert [len(r["frontend_s"]) for r in candidate.replays] == [3, 3]
        assert candidate.replays[0]["fidelity"]["steps"]["num_late"] == 10
        plan = candidate.plan
        assert plan is not None and set(candidate.resolved) == {p.role for p in plan.pools}
        assert all(full["max_model_len"] == 4096 for full in candidate.resolved.values())
    for candidate in results.candidates:
        if candidate not in seen:
            assert candidate.predicted is not None and candidate.predicted["num_requests"] == num
    assert folder.load_results() == results


def test_rounds_alternate_and_one_fleet_runs_at_a_time(
    rehearsed: tuple[RunFolder, Results, Stage],
) -> None:
    _, results, stage = rehearsed
    count = sum(c.measured is not None for c in results.candidates)
    replays = [line for line in stage.log if line.startswith("replay")]
    assert len(replays) == 2 * count and replays == replays[::-1]
    starts = [1 if x.startswith("start") else -1 for x in stage.log if not x.startswith("replay")]
    # the last fleet of a round is the first of the next
    assert starts.count(1) == 2 * count - 1
    assert np.cumsum(starts).max() == 1 and sum(starts) == 0


def test_a_killed_confirmation_goes_on(
    study: Study, folder: RunFolder, rehearsed: tuple[RunFolder, Results, Stage]
) -> None:
    killed, resumed, once_more = Stage(kill_at=3), Stage(), Stage()
    with pytest.raises(KeyboardInterrupt):
        confirmed(study, folder, killed)
    assert killed.log[-1].startswith("stop")
    assert folder.load_results().evidence is Evidence.PREDICTED
    results = confirmed(study, folder, resumed)
    assert results.recommended.label == rehearsed[1].recommended.label
    for one, other in zip(results.candidates, rehearsed[1].candidates, strict=True):
        assert one.label == other.label and len(one.replays) == len(other.replays)
        for name in ("ttft_p99_s", "itl_p99_s", "goodput_rps"):  # the made-up clock starts anew
            if one.measured is not None and other.measured is not None:
                assert one.measured[name] == pytest.approx(other.measured[name])
    assert 3 + resumed.num_replays == rehearsed[2].num_replays
    confirmed(study, folder, once_more)
    assert once_more.log == []
    confirmed(study, folder, once_more, again=True)
    assert once_more.num_replays == rehearsed[2].num_replays


def test_a_fleet_that_is_late_is_reported(study: Study, folder: RunFolder) -> None:
    results = confirmed(study, folder, Stage(late="disaggregated"))
    failed = [c for c in results.candidates if c.failure is not None]
    assert failed and {c.settings["mode"] for c in failed} == {"disaggregated"}
    assert all("20.0% late" in str(c.failure) and c.measured is None for c in failed)
    assert results.recommended.settings["mode"] == "aggregated"
    with pytest.raises(EvidenceError):
        confirmed(study, folder, Stage(late="aggregated"), again=True)


def test_a_dead_server_ends_the_run(study: Study, folder: RunFolder) -> None:
    stage = Stage(dead="disaggregated")
    with pytest.raises(EngineDiedError, match=r"decode 0 of candidate-. died during the replay"):
        confirmed(study, folder, stage)
    assert stage.log[-1] == "stop disaggregated"


def test_every_output_says_rehearsed(rehearsed: tuple[RunFolder, Results, Stage]) -> None:
    left_out = replace(rehearsed[1].default, label="other", measured=None, corrected=None)
    results = replace(rehearsed[1], candidates=[*rehearsed[1].candidates, left_out])
    console = Console(width=300, record=True, file=io.StringIO())
    print_results(results, console)
    shown = " ".join(console.export_text().split())
    assert REHEARSED in shown and "not rehearsed" in shown
    assert results.fleet is not None
    assert f"the first {results.fleet['rehearsed']['requests']} requests, 2 rounds" in shown
    assert "rehearsed (9 configurations tried" in verdict_line(results)
    together = replace(results, recommended=results.default)
    files = bundle(together, BundleOptions())
    page = json.loads(files["evidence.json"])
    assert page["evidence"] == REHEARSED
    assert page["rehearsed"] == results.default.measured
    sources = list(tables.confirmed(results)["source"])
    assert sources.count("rehearsed") == sum(c.measured is not None for c in results.candidates)
    for text in (shown, json.dumps(results.to_dict()), *files.values(), *sources):
        assert "measured" not in text
    assert Results.from_dict(json.loads(json.dumps(results.to_dict()))) == results


def scored(results: Results, mode: str, worth: float, router: str) -> Scored:
    """The best fleet of `mode`, with another worth and router."""
    found = next(c for c in reversed(results.candidates) if c.settings["mode"] == mode)
    settings = {**found.settings, "router": router}
    return Scored(replace(found, label=f"the {mode} one", settings=settings), worth)


def test_a_router_that_the_proxy_lacks(study: Study, fleet_run: RunFolder) -> None:
    results = fleet_run.load_results()
    default = Scored(results.default, 0.5)
    problem: Any = SimpleNamespace(fleet=made_fleet)
    together = scored(results, "aggregated", 1.0, "round-robin")
    split = scored(results, "disaggregated", 0.7, "prefix-aware")
    plans, failures = choose(study, problem, [default, together, split])
    assert list(plans) == ["default", "the aggregated one"]
    assert "got 'prefix-aware'" in failures["the disaggregated one"]
    with pytest.raises(
        StudyError, match=r"the disaggregated one, .*, cannot be rehearsed: .*rules"
    ):
        choose(study, problem, [default, together, replace(split, worth=2.0)])


def made_fleet(plan: FleetPlan) -> Any:
    """What is asked of a fleet before it is rehearsed."""
    router = SimpleNamespace(rule=plan.router, decode_rule="round-robin")
    return SimpleNamespace(router=router, aggregated=(), prefill=None, link=None)


def test_a_large_fleet_is_refused_with_a_way_out(
    finished_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    changes = {"fleet": {"gpus": 16, "modes": ["aggregated"]}, "search": {"trials": 1}}
    path = write_fleet_study(tmp_path / "large.yaml", finished_run, changes)
    folder = tuned(path, RunFolder(tmp_path / "run"))
    line = verdict_line(folder.load_results())
    assert "With up to 16 replicas it is too large for `stallfree confirm`" in line
    monkeypatch.setattr(sys, "argv", ["stallfree", "confirm", str(path), "--out", str(folder.path)])
    with pytest.raises(SystemExit) as stop:
        main()
    said = [x for x in capsys.readouterr().err.splitlines() if x.startswith("error: ")]
    assert stop.value.code == 2 and len(said) == 1
    assert (
        "default, aggregated 16, tp 1, round-robin, max_model_len 4096, cannot be rehearsed"
        in said[0]
    )
    assert "it has 16 replicas, and at most 4 real engines are run together" in said[0]
    assert "a study with fleet.gpus: 4 and traffic.share: 0.25, or one replica" in said[0]
    assert "without `fleet` and with traffic.share: 0.0625" in said[0]


@pytest.mark.engine
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_real_servers(finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One prefill and one decode server, a few seconds of few requests. Whether their steps are in
    time is a matter of what else the machine does, and not tested here."""
    monkeypatch.setattr(Replay, "require_evidence", lambda seen: None)
    changes = {
        "traffic": {"rate_rps": 2.0},
        "engine": {"name": "rehearsal", "model": str(MODEL)},
        "fleet": {"gpus": 2, "modes": ["disaggregated"]},
        "search": {"trials": 1, "windows": 1},
        "validate": {"seconds": 4, "rounds": 1},
    }
    path = write_fleet_study(tmp_path / "tiny.yaml", finished_run, changes)
    folder = tuned(path, RunFolder(tmp_path / "run"))
    results = confirm_again(load_study(path), folder, SilentUi(), again=False)
    (only,) = results.candidates
    assert results.evidence is Evidence.REHEARSED and results.recommended == only
    assert only.predicted is not None and only.measured is not None and results.fleet is not None
    num = results.fleet["rehearsed"]["requests"]
    assert only.measured["num_finished"] == only.predicted["num_finished"] == num > 0
    assert min(only.replays[0]["frontend_s"]) > 0
    assert set(only.resolved) == {"prefill", "decode"}
    assert only.resolved["decode"]["num_gpu_blocks_override"] == 65536
