"""Trials and rules of a fleet as frames."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from dashboard.derive.fleet_frames import best_kinds, best_of, rule_quantiles, trial_fleets
from dashboard.derive.fleet_tables import candidate_fleets, effects_table, pool_table, trial_table
from tests.dashboard.made_fleets import fleet_results


def test_trials_say_what_they_are() -> None:
    trials = trial_fleets(fleet_results())
    first = trials.iloc[0]
    assert (first["mode"], first["aggregated"], first["prefill"], first["default"]) == (
        "aggregated",
        4,
        0,
        True,
    )
    split = trials[trials["number"] == 2].iloc[0]
    assert (split["prefill"], split["decode"], split["gpus"], split["kind"]) == (
        1,
        3,
        4,
        "split, 1:1 GPU a replica",
    )
    assert split["per_gpu"] == pytest.approx(6.0 / 4)
    assert trials["recommended"].sum() == 1


def test_the_best_meets_the_slos_before_it_is_fast() -> None:
    trials = trial_fleets(fleet_results())
    cells = best_of(trials[trials["mode"] == "disaggregated"], ["prefill", "decode"], fewest=False)
    assert cells.set_index("number").index.tolist() == [3, 4], "2 is faster than 3, and misses"


def test_for_the_fewest_gpus_fewer_are_better() -> None:
    rows = [
        {"number": n, "feasible": True, "per_gpu": g, "gpus": k, "kind": "x"}
        for n, g, k in ((1, 9.0, 8), (2, 1.0, 4))
    ]
    frame = pd.DataFrame(rows)
    assert best_of(frame, ["kind"], fewest=True)["number"].tolist() == [2]
    assert best_of(frame, ["kind"], fewest=False)["number"].tolist() == [1]


def test_the_default_is_a_kind_of_its_own() -> None:
    best = best_kinds(trial_fleets(fleet_results()), fewest=False)
    assert best["number"].tolist() == [1, 3, 0]


def test_quantiles_by_rule_leave_out_what_does_not_exist() -> None:
    quantiles = rule_quantiles(trial_fleets(fleet_results()))
    labels = set(quantiles["rules"])
    assert labels == {"aggregated: round-robin", "split: round-robin / least-requests"}
    ttft = quantiles[
        (quantiles["figure"] == "ttft_p99_s") & (quantiles["rules"].str[:5] == "split")
    ]
    assert ttft["trials"].tolist() == [2], "one of three has no TTFT p99"
    assert ttft["q5"].iloc[0] <= ttft["q50"].iloc[0] <= ttft["q95"].iloc[0]


def test_tables_have_a_row_for_everything() -> None:
    results = fleet_results()
    assert len(trial_table(trial_fleets(results))) == len(results.front)
    candidates = candidate_fleets(results)
    assert candidates["candidate"].tolist() == [
        "engine default",
        "candidate-1, recommended",
        "candidate-2",
        "candidate-3",
    ]
    assert candidates["TTFT p99, ms"].isna().tolist() == [False, False, False, True]
    assert candidates["failure"].iloc[3] == "no room"


def test_imbalance_of_a_pool() -> None:
    plan = fleet_results().recommended.plan
    assert plan is not None
    use: dict[str, Any] = {
        "aggregated": {"load": 0.5, "requests": [10, 20, 30, 20], "preemptions": 1}
    }
    row = pool_table(plan, use).iloc[0]
    assert (row["load, %"], row["busiest above the mean, %"]) == (50.0, 50.0)
    assert pool_table(plan, {})["load, %"].isna().all(), "not simulated yet"


def test_refused_rules_are_in_the_table() -> None:
    figures = {"per_gpu": None, "ttft_p99_s": None, "itl_p99_s": None, "meets_slo": None}
    row = {"part": "first", "rule": "priority", "own": False, "refused": "no priorities"} | figures
    assert effects_table([row])["not simulated"].tolist() == ["no priorities"]
