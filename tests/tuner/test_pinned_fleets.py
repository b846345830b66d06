"""Predictions of fleets that must not move unnoticed, as `test_pinned_predictions` has them.

After an intended change: `python -m tests.tuner.test_pinned_fleets`, and say in the commit why the
figures moved.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from profiler.engine_config import EngineConfig
from profiler.kv_transfer import KvShape
from profiler.latency.base import load_latency_model
from profiler.traffic.synthetic import like
from tests.tuner.pinned import check_pinned
from tests.tuner.test_pinned_predictions import BASE, FIGURES, NUM_KV_BLOCKS, SLO
from tuner.fleet_plan import FleetPlan, PoolSetup
from tuner.search.fleet_problem import FleetProblem
from tuner.search.fleet_space import FleetSpace
from tuner.search.objective import Problem
from tuner.simulator import Link

TABLE = Path(__file__).with_name("pinned_fleets.json")
BUDGET = {"max_num_batched_tokens": 1024}
TURN = "round-robin"
PLANS = {
    "4 replicas": FleetPlan((PoolSetup("aggregated", 4),), TURN),
    "4 replicas, budget 1024": FleetPlan((PoolSetup("aggregated", 4, settings=BUDGET),), TURN),
    "2P:2D": FleetPlan((PoolSetup("prefill", 2), PoolSetup("decode", 2)), TURN, TURN),
    "1P:3D": FleetPlan((PoolSetup("prefill", 1), PoolSetup("decode", 3)), TURN, TURN),
}


def predict(plan: FleetPlan) -> dict[str, Any]:
    """Figures of one fleet on twenty seconds of Azure-like traffic at 32 requests/s."""
    trace = like("azure-conv-2023", rate_rps=32.0, duration_s=20.0, seed=7)
    model, resolved = load_latency_model("example-8b"), EngineConfig.from_settings(BASE)
    one = Problem(trace, model, SLO, EngineConfig(), resolved, NUM_KV_BLOCKS, {})
    roles = ("aggregated", "prefill", "decode")
    space = FleetSpace(
        modes=("aggregated", "disaggregated"),
        max_gpus=4,
        fewest=False,
        sizes=dict.fromkeys(roles, (1,)),
        systems=dict.fromkeys(roles, ""),
        knobs={role: {} for role in roles},
        routers=(TURN,),
        decode_routers=(TURN,),
    )
    link, kv = Link(1e-3, 48e9), KvShape(num_layers=32, num_kv_heads=8, head_bytes=16384)
    metrics = FleetProblem(trace, SLO, space, {("", 1): one}, 1, link, kv).evaluate(plan, seed=7)
    figures = {name: getattr(metrics, name) for name in FIGURES}
    return {"feasible": metrics.meets_slo, **figures}


@pytest.mark.parametrize("name", PLANS)
def test_prediction_stays(name: str) -> None:
    check_pinned(TABLE, name, predict(PLANS[name]), FIGURES)


if __name__ == "__main__":
    table = {name: predict(plan) for name, plan in PLANS.items()}
    TABLE.write_text(json.dumps(table, indent=1) + "\n")
