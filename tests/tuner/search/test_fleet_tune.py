"""The main job on a fleet: what it leaves, shows, exports and refuses."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from profiler.errors import LinkError
from profiler.traffic.trace import Trace
from tests.tuner.search.conftest import no_engine
from tuner.candidate import Evidence, Verdict
from tuner.cli.app import main
from tuner.cli.fleet_report import print_fleets
from tuner.cli.report import print_results, verdict_line
from tuner.export.bundle import BundleOptions, bundle, launch_plan
from tuner.fleet_plan import plan_of
from tuner.results import Results, RunFolder
from tuner.search.progress import SilentUi
from tuner.search.tune import TuneOptions, fingerprint, tune
from tuner.study import load_study


@pytest.fixture(scope="module")
def results(fleet_run: RunFolder) -> Results:
    return fleet_run.load_results()


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


def test_no_figure_is_cut_off_in_80_columns(results: Results) -> None:
    console = Console(width=80, file=io.StringIO(), record=True)
    print_fleets(results, console)
    text = console.export_text()
    assert "\u2026" not in text
    for candidate in results.candidates:
        assert candidate.predicted is not None
        assert f"{1e3 * candidate.predicted['ttft_p99_s']:,.1f}" in text
        assert f"{results.per_gpu(candidate):,.3f}" in text


def test_resume_adds_nothing(fleet_study: Path, fleet_run: RunFolder, results: Results) -> None:
    options = TuneOptions(fleet_study, resume=True, start=no_engine)
    again = tune(load_study(fleet_study), fleet_run, options, SilentUi())
    assert replace(again, provenance=results.provenance) == results


def test_another_fleet_is_another_run(fleet_study: Path) -> None:
    study = load_study(fleet_study)
    other = study.fleet.model_copy(update={"requests": 200}) if study.fleet else None
    assert fingerprint(study) != fingerprint(study.model_copy(update={"fleet": other}))


def test_the_report_is_readable(results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    print_results(results, Console(width=160))
    out = capsys.readouterr().out
    for text in ("replicas", "engine default", "front of the search", "nothing was"):
        assert text in out
    assert any(f"{p}P:{4 - p}D" in out for p in (1, 2, 3))
    assert "the busiest 100 of" in out
    line = verdict_line(results)
    assert "Predicted only" in line and "Rehearse it with `stallfree confirm`" in line


def test_what_is_exported(results: Results) -> None:
    together = as_mode(results, "aggregated")
    files = bundle(together, BundleOptions())
    plan = together.recommended.plan
    assert plan is not None
    flags = yaml.safe_load(files["vllm.yaml"])
    for name, value in plan.pools[0].settings.items():
        assert flags[name.replace("_", "-")] == value
    assert "tensor-parallel-size" not in flags
    on_two = replace(plan, pools=(replace(plan.pools[0], tp=2),)).settings()
    two = replace(together, recommended=replace(together.recommended, settings=on_two))
    assert yaml.safe_load(bundle(two, BundleOptions())["vllm.yaml"])["tensor-parallel-size"] == 2
    apart = as_mode(results, "disaggregated")
    split, of_plan = bundle(apart, BundleOptions()), apart.recommended.plan
    assert {"prefill.yaml", "decode.yaml"} <= set(split)
    assert of_plan is not None and of_plan.words() in split["EVIDENCE.md"]
    assert "by its figures, 1 GB/s, 1 ms" in split["EVIDENCE.md"]


def test_one_replica_is_launched_with_its_share(fleet_run: RunFolder, results: Results) -> None:
    plan, trace = launch_plan(fleet_run, "0", 10.0), Trace.load(fleet_run.trace).slice(0.0, 10.0)
    assert plan.deployment.num_replicas == 4  # the engine default
    assert plan.trace.num_requests == -(-trace.num_requests // 4)
    assert plan.trace.prompt_tokens.tolist() == trace.prompt_tokens[::4].tolist()
    assert plan.settings == {"max_model_len": 4096}
    assert plan.resolved == results.default.resolved["aggregated"]


def test_an_unknown_link_is_found_before_the_search(fleet_study: Path, tmp_path: Path) -> None:
    study = load_study(fleet_study)
    assert study.fleet is not None
    link = study.fleet.link.model_copy(update={"name": "string", "latency_s": None})
    bad = study.model_copy(update={"fleet": study.fleet.model_copy(update={"link": link})})
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(LinkError, match="no link and no file is named 'string'"):
        tune(bad, folder, TuneOptions(fleet_study, start=no_engine), SilentUi())
    assert not folder.database.exists()


def test_commands(
    fleet_study: Path,
    fleet_run: RunFolder,
    results: Results,
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

    code, out, _ = stallfree("tune", fleet_study, "--out", fleet_run.path, "--resume", "--json")
    plain = json.loads(out)
    assert code == 0 and plain["fleet"]["max_gpus"] == 4
    assert plain["num_gpus"] == 4 and plain["goodput_per_gpu_rps"]["recommended"] > 0
    assert plain["bundle"] == str(fleet_run.bundle) and fleet_run.bundle.exists()
    code, out, _ = stallfree("show", fleet_run.path)
    assert code == 0 and "fleets on all traffic" in out
    code, _, err = stallfree("simulate", fleet_study)
    assert code == 2 and err.startswith("error: ") and err.count("\n") == 1


def test_dashboard_rows(results: Results) -> None:
    from dashboard import tables

    rows = tables.confirmed(results)
    assert list(rows["GPUs"]) == [4] * len(results.candidates)
    recommended = plan_of(results.recommended.settings)
    assert recommended is not None and recommended.words() in list(rows["fleet"])
    assert all(text.startswith(("aggregated", "disaggregated")) for text in
               tables.trials(results)["settings"])  # fmt: skip
