"""Differences of a trial to the engine default, simulated one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.derive.differences import differences
from tests.dashboard.made_points import split
from tuner.results import RunFolder


def silent(done: int, total: int) -> None:
    assert 0 <= done <= total


def test_both_ends_are_what_the_search_found(finished_run: Path) -> None:
    front = RunFolder(finished_run).load_results().front
    point = next(p for p in front if p["on_front"])
    found = differences(finished_run, point["settings"], progress=silent)
    for end, known in (("default", front[0]), ("chosen", point)):
        assert {name: known[name] for name in found[end]} == pytest.approx(found[end])


def test_each_difference_alone_is_taken_back_and_put_on(finished_run: Path) -> None:
    """With two differences, one taken back is the other put alone on the default."""
    settings = {"max_num_batched_tokens": 256, "long_prefill_token_threshold": 128}
    given = settings | {"max_model_len": 4096}
    budget, cap = differences(finished_run, given, progress=silent)["rows"]
    assert (budget["name"], budget["default"], budget["chosen"]) == (
        "max_num_batched_tokens",
        2048,
        256,
    )
    assert budget["without"] == cap["alone"] and cap["without"] == budget["alone"]
    assert budget["without"] != budget["alone"]


def test_a_value_that_the_engine_resolves_anyway_is_no_difference(finished_run: Path) -> None:
    given = {"max_num_batched_tokens": 2048, "max_model_len": 4096}
    assert differences(finished_run, given, progress=silent)["rows"] == []


def test_what_the_engine_refuses_says_why(finished_run: Path) -> None:
    given = {"max_num_batched_tokens": 4096, "max_num_seqs": 3000, "max_model_len": 4096}
    budget, seqs = differences(finished_run, given, progress=silent)["rows"]
    assert budget["without"] is None and budget["alone"] is not None
    assert "max_num_seqs must be at most max_num_batched_tokens" in budget["why_not"]
    assert seqs["without"] is not None and seqs["alone"] is None


def test_fleets_differ_by_pools_routing_and_settings(fleet_place: Path) -> None:
    folder = fleet_place / "fleet"
    results = RunFolder(folder).load_results()
    plan = next(p for p in results.front if p["settings"]["mode"] == "aggregated" and p["number"])
    found = differences(folder, plan["settings"], progress=silent)
    assert found["chosen"]["itl_p99_s"] == pytest.approx(plan["itl_p99_s"])
    assert [row["name"] for row in found["rows"]] == ["max_num_batched_tokens"]
    assert found["rows"][0]["without"] == pytest.approx(found["default"])


def test_a_split_fleet_says_what_cannot_be_told_apart(fleet_place: Path) -> None:
    given = split(2, 2, max_num_batched_tokens=256)
    found = differences(fleet_place / "fleet", given, progress=silent)
    rows = {row["name"]: row for row in found["rows"]}
    assert rows["pools"]["without"] is None and "no such pools" in rows["pools"]["why_not"]
    assert rows["pools"]["chosen"] == "disaggregated 2P:2D, tp 1:1"
    assert rows["prefill.max_num_batched_tokens"]["without"] is not None
    assert rows["prefill.max_num_batched_tokens"]["alone"] is None
