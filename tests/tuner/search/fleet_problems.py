"""Small fleets to search: their space, replicas of a known latency model, a closed-form problem.

In a module of its own so that worker processes can import it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from fake_problem import metrics

from profiler.engine_config import EngineConfig
from profiler.errors import KnobError
from profiler.kv_transfer import KvShape
from profiler.latency.base import load_latency_model
from profiler.traffic.trace import Trace
from tuner.fleet_plan import ROLES, FleetPlan
from tuner.metrics import Metrics
from tuner.search.fleet_problem import FleetProblem
from tuner.search.fleet_space import FleetSpace
from tuner.search.objective import Problem
from tuner.simulator import Link
from tuner.slo import Slo
from tuner.space_section import Axis

RESOLVED = EngineConfig(
    max_num_batched_tokens=8192,
    max_num_seqs=256,
    max_model_len=16384,
    block_size=16,
    enable_prefix_caching=False,
    async_scheduling=True,
)
SLO = Slo.build(("default",), {"ttft_p99_s": 1.0, "itl_p99_s": 0.05}, {})
KV = KvShape(num_layers=32, num_kv_heads=8, head_bytes=16384)
KNOBS = {"max_num_batched_tokens": Axis(low=256, high=8192, log=True)}


def space(
    max_gpus: int = 8,
    *,
    modes: tuple[str, ...] = ("aggregated", "disaggregated"),
    tp: tuple[int, ...] = (1, 2),
    fewest: bool = False,
) -> FleetSpace:
    roles = dict.fromkeys(role for mode in modes for role in ROLES[mode])
    return FleetSpace(
        modes=modes,
        max_gpus=max_gpus,
        fewest=fewest,
        sizes=dict.fromkeys(roles, tp),
        systems=dict.fromkeys(roles, "gpu"),
        knobs=dict.fromkeys(roles, KNOBS),
        routers=("round-robin", "least-requests"),
        decode_routers=("round-robin", "least-requests"),
    )


def traffic(num: int = 200, rate_rps: float = 20.0, prompt: int = 1000, output: int = 100) -> Trace:
    return Trace(
        np.arange(num) / rate_rps,
        np.full(num, prompt, dtype=np.int64),
        np.full(num, output, dtype=np.int64),
    )


def replica(trace: Trace, tp: int = 1) -> Problem:
    """One GPU or several, which make every step `tp` times as fast."""
    model = load_latency_model("example-8b")
    if tp > 1:
        names = ("constant_s", "per_attention_pair_s", "per_decode_context_s", "above_knee_s")
        scaled = {name: getattr(model.params, name) / tp for name in names}
        model = replace(model, params=model.params._replace(**scaled))
    fixed = EngineConfig(max_model_len=16384)
    return Problem(trace, model, SLO, fixed, RESOLVED, 4000 * tp, KNOBS)


def fleet_problem(of: FleetSpace, trace: Trace | None = None) -> FleetProblem:
    trace = traffic() if trace is None else trace
    replicas = {("gpu", tp): replica(trace, tp) for tp in next(iter(of.sizes.values()))}
    return FleetProblem(trace, SLO, of, replicas, 1, Link(1e-3, 1e10), KV)


class ClosedForm(FleetProblem):
    """No simulation: split fleets do better, three prefill replicas of eight are best, and small
    prefill budgets delay prompts."""

    def evaluate(self, plan: FleetPlan) -> Metrics:
        budget = plan.pools[0].settings.get("max_num_batched_tokens", 8192)
        if budget % 13 == 0:
            raise KnobError(f"thirteen is refused, got {budget}")
        if plan.mode == "aggregated":
            return metrics(0.5 + 100 / budget, 2e-5 * budget, 5.0)
        share = plan.pools[0].num_gpus / plan.num_gpus
        ttft = 0.2 + abs(share - 3 / 8) + 100 / budget
        return metrics(ttft, 0.02, 8.0 * math.exp(-2 * abs(share - 3 / 8)))


def closed_form(of: FleetSpace) -> ClosedForm:
    made = fleet_problem(of)
    return ClosedForm(made.trace, made.slo, of, made.replicas, 1, made.link, made.kv)
