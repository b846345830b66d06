"""The pools page."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.report.pools import section
from dashboard.report.section import Reported
from dashboard.words import fleet_words
from tests.dashboard.conftest import Look
from tests.dashboard.made_fleets import fleet_results, verdict
from tuner.candidate import Evidence
from tuner.results import RunFolder


@pytest.fixture(scope="module")
def judged_place(fleet_place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of fleets, called judged, that has a verdict (of other fleets)."""
    root = tmp_path_factory.mktemp("judged")
    shutil.copytree(fleet_place / "fleet", root / "judged")
    RunFolder(root / "judged").save_verdict(verdict())
    return root


def test_one_engine_has_no_pools(look: Look, storage: Path) -> None:
    app = look(storage, "pools", run="finished")
    assert not app.exception
    assert "no pools" in app.info[0].value
    assert "stallfree verdict" in app.info[0].value
    assert not app.subheader


def test_without_a_verdict_the_page_says_how_to_get_one(look: Look, fleet_place: Path) -> None:
    app = look(fleet_place, "pools")
    assert not app.exception and not app.error
    assert app.markdown[0].value.startswith("**Run split 3P:1D on 4 GPUs: predicted")
    assert any("stallfree verdict" in info.value for info in app.info)


def test_the_whole_page(look: Look, judged_place: Path) -> None:
    app = look(judged_place, "pools")
    assert not app.exception and not app.error
    assert [s.value for s in app.subheader] == [
        "Which numbers of replicas",
        "What the pools do",
        "Split or not: the verdict",
        "Router rules",
    ]
    assert len(app.get("plotly_chart")) == 10
    assert any("Verdict: " in m.value for m in app.markdown)


def test_another_point_is_looked_at(look: Look, fleet_place: Path) -> None:
    front = RunFolder(fleet_place / "fleet").load_results().front
    number = next(p["number"] for p in front if p["settings"]["mode"] == "disaggregated")
    app = look(fleet_place, "pools", run="fleet", point=str(number))
    assert not app.exception and not app.error
    assert any(
        table.value["pool"].tolist() == ["prefill", "decode"]
        for table in app.dataframe
        if "pool" in table.value
    )


def test_a_damaged_verdict_is_one_line(look: Look, fleet_place: Path, tmp_path: Path) -> None:
    shutil.copytree(fleet_place / "fleet", tmp_path / "fleet")
    (tmp_path / "fleet" / "verdict.json").write_text('{"schema_version": 0}')
    app = look(tmp_path, "pools")
    assert not app.exception
    assert ["stallfree verdict" in error.value for error in app.error] == [True]


def test_the_report_has_the_same(judged_place: Path, finished_run: Path) -> None:
    folder = RunFolder(judged_place / "judged")
    found = section(Reported(folder, folder.load_results(), "recommended"), lambda a, b: None)
    assert found is not None
    assert len(found.figures) == 8
    assert "Verdict: " in found.text
    assert all(not frame.empty for _, frame in found.tables)
    one = RunFolder(finished_run)
    assert section(Reported(one, one.load_results(), "recommended"), lambda a, b: None) is None


def test_the_answer_compares_with_both_modes_and_the_default() -> None:
    results = fleet_results()
    assert fleet_words.answer(results).startswith("Run 4 aggregated replicas on 4 GPUs: predicted ")
    split, default = fleet_words.against_others(results)
    assert "best split fleet found (split 1P:3D on 4 GPUs" in split
    assert (
        "engine default (4 aggregated replicas on 4 GPUs, which misses an SLO) serves nothing"
        in default
    )


def test_what_is_missed_is_said_even_where_it_has_no_size() -> None:
    misses = {"default.ttft_p99_s": math.inf, "default.itl_p99_s": 0.5}
    said = fleet_words.answer(replace(fleet_results(), meets_slo=False, misses=misses))
    assert said.startswith("No fleet found meets the SLOs; the closest is 4 aggregated replicas")
    assert said.endswith("it misses TTFT p99 (it never came), ITL p99 by 50 %.")


def test_a_rehearsed_fleet_has_both_figures() -> None:
    results = fleet_results()
    best = replace(results.recommended, measured=results.recommended.predicted)
    seen = replace(results, recommended=best, evidence=Evidence.REHEARSED)
    full, rehearsed = fleet_words.about(seen)
    assert full.startswith("In full: aggregated 4, tp 1, round-robin")
    assert rehearsed.startswith("Rehearsed: ") and rehearsed.endswith("it meets the SLOs.")


def test_how_to_judge_depends_on_what_the_study_leaves() -> None:
    results = fleet_results()
    assert results.fleet is not None
    assert "stallfree verdict runs/x" in fleet_words.how_to_judge(results, "runs/x")
    results.fleet["fewest"] = True
    assert "equal GPUs" in fleet_words.how_to_judge(results, "runs/x")
    results.fleet.update(fewest=False, modes=["aggregated"])
    assert "needs both sides" in fleet_words.how_to_judge(results, "runs/x")


def test_flips_in_words() -> None:
    axes = {"load": {"unit": "arrival rate, requests/s", "own": 240.0, "values": [60.0, 480.0]}}
    change = {"value": 363.2, "below": "tie", "above": "disaggregated"}
    plain = {"flips": {"load": [change]}, "axes": axes}
    assert fleet_words.flips_in_words(plain) == [
        "Arrival rate, requests/s (own: 240): tie up to 363, split above."
    ]
    plain["flips"]["load"] = None
    assert "nothing changes from 60 to 480" in fleet_words.flips_in_words(plain)[0]


def test_what_another_rule_would_change() -> None:
    def row(rule: str, per_gpu: float, *, own: bool = False, met: bool = True) -> dict[str, object]:
        known = {"part": "first", "rule": rule, "per_gpu": per_gpu, "own": own}
        return known | {"meets_slo": met, "refused": None}

    rows = [row("a", 2.0, own=True), row("b", 2.2), row("c", 1.0, met=False)]
    said = fleet_words.router_sentence(rows)
    assert "best is b (first) with +10.0 %" in said
    assert "worst c (first) with -50.0 %" in said and "1 of them misses" in said
    assert "No other" in fleet_words.router_sentence(rows[:1])
