"""A fleet as plain data and in words."""

from __future__ import annotations

import json

import pytest

from tuner.fleet_plan import FleetPlan, PoolSetup, in_words, plan_of

ONE = FleetPlan((PoolSetup("aggregated", 8, 2, "h200_sxm", {"max_num_seqs": 64}),), "round-robin")
SPLIT = FleetPlan(
    (
        PoolSetup("prefill", 10, 1, "h200_sxm", {"max_num_batched_tokens": 2048}),
        PoolSetup("decode", 3, 2, "h100_sxm"),
    ),
    "least-requests",
    "round-robin",
)
BESIDE = FleetPlan((*ONE.pools, *SPLIT.pools), "prompt-length", "round-robin")


@pytest.mark.parametrize("plan", [ONE, SPLIT, BESIDE], ids=lambda plan: plan.mode)
def test_plain_data_holds_all(plan: FleetPlan) -> None:
    plain = json.loads(json.dumps(plan.settings()))
    assert plan_of(plain) == plan
    assert plain["mode"] == plan.mode and plain["num_gpus"] == plan.num_gpus


def test_modes_and_gpus() -> None:
    assert [plan.mode for plan in (ONE, SPLIT, BESIDE)] == ["aggregated", "disaggregated", "mixed"]
    assert [plan.num_gpus for plan in (ONE, SPLIT, BESIDE)] == [16, 16, 32]
    assert [plan.ratio for plan in (ONE, SPLIT, BESIDE)] == ["8", "10P:3D", "8 + 10P:3D"]
    assert SPLIT.pool("decode") == SPLIT.pools[1] and ONE.pool("decode") is None


def test_words() -> None:
    assert ONE.words() == "aggregated 8, tp 2, round-robin, max_num_seqs 64"
    assert in_words(SPLIT.settings()) == (
        "disaggregated 10P:3D, tp 1:2, least-requests/round-robin, max_num_batched_tokens 2048:-"
    )
    assert in_words({"max_num_seqs": 8}) == "{'max_num_seqs': 8}"
    assert plan_of({"max_num_seqs": 8}) is None
