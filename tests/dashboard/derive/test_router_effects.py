"""Every router rule, all else equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.derive.points import fleet_of
from dashboard.derive.router_effects import router_effects, variants_of
from tests.dashboard.derive.test_pool_use import quiet
from tuner.fleet_plan import DECODE, PREFILL, FleetPlan, PoolSetup
from tuner.results import RunFolder
from tuner.simulator.router import RULES

SPLIT = FleetPlan((PoolSetup(PREFILL, 1), PoolSetup(DECODE, 2)), "round-robin", "least-requests")


def test_one_rule_is_changed_at_a_time() -> None:
    found = list(variants_of(SPLIT))
    assert [rule for part, rule, _ in found if part == "first"] == list(RULES)
    assert [rule for part, rule, _ in found if part == "decode"] == list(RULES)[:4]
    for part, rule, plan in found:
        same = (
            plan.decode_router == "least-requests"
            if part == "first"
            else plan.router == "round-robin"
        )
        assert same and rule in (plan.router, plan.decode_router)
        assert plan.pools == SPLIT.pools
    assert sum(plan == SPLIT for _, _, plan in found) == 2


def test_figures_of_each_rule_are_those_of_the_problem(fleet_place: Path) -> None:
    folder = RunFolder(fleet_place / "fleet")
    recommended = folder.load_results().recommended
    rows = router_effects(folder.path, recommended.settings, progress=quiet)["rows"]
    own = next(row for row in rows if row["own"])
    assert recommended.predicted is not None
    assert own["ttft_p99_s"] == pytest.approx(recommended.predicted["ttft_p99_s"])
    assert own["intervals"]["goodput_rps"] == list(
        recommended.predicted["intervals"]["goodput_rps"]
    )
    plan = FleetPlan.from_settings(recommended.settings)
    assert own["per_gpu"] == pytest.approx(recommended.predicted["goodput_rps"] / plan.num_gpus)
    refused = {row["rule"]: row["refused"] for row in rows if row["refused"]}
    assert "priorities" in refused["priority"]
    assert {row["rule"] for row in rows} == set(RULES)
    other = next(row for row in rows if row["rule"] == "power-of-two" and row["part"] == "first")
    variant = next(p for part, rule, p in variants_of(plan) if rule == "power-of-two")
    assert other["goodput_rps"] == fleet_of(folder.path).evaluate(variant).to_dict()["goodput_rps"]
