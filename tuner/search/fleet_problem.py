"""A fleet as the search has it: choices -> pools of replicas -> simulation -> metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from profiler.engine_config import EngineConfig
from profiler.errors import StudyError
from profiler.kv_transfer import KvShape, transfer_bytes_per_token
from profiler.traffic.trace import Trace
from tuner.fleet_plan import AGGREGATED, DECODE, PREFILL, FleetPlan, PoolSetup
from tuner.intervals import over_windows
from tuner.metrics import Metrics
from tuner.search.fleet_space import FleetSpace, default_plan
from tuner.search.fleet_starts import starting_plans
from tuner.search.fleet_work import request_work
from tuner.search.objective import Problem
from tuner.search.settings import resolve
from tuner.simulator import Link, Pool
from tuner.simulator.fleet import Fleet, FleetSimulation, simulate_fleet
from tuner.simulator.router import Router
from tuner.slo import Slo
from tuner.space_section import Axis
from tuner.windows import draw_windows

Kind = tuple[str, int]
"""GPU system and GPUs per replica"""


@dataclass(frozen=True)
class FleetProblem:
    """Fleets for one traffic, as `searchable.Searchable` has it; plain data.

    Raises `StudyError` when the traffic has images, or arrives all at once.
    """

    trace: Trace
    slo: Slo
    space: FleetSpace
    replicas: Mapping[Kind, Problem]
    """one replica of each kind: latency model, KV blocks, what the engine resolves"""
    tp: int
    """GPUs per replica of the default"""
    link: Link
    kv: KvShape
    """of the model: what moves over the link"""
    windows: int = 1
    """arrival windows that a fleet is scored over"""

    def __post_init__(self) -> None:
        if self.trace.images is not None:
            raise StudyError(
                "fleets are simulated for text only; take the images out of the traffic"
            )
        if not np.isfinite(self.trace.rate_rps):
            raise StudyError("fleet: all requests arrive at once; give traffic with a rate")

    def replica(self, role: str, tp: int) -> Problem:
        """One replica of a pool."""
        return self.replicas[self.space.systems[role], tp]

    @cached_property
    def default(self) -> FleetPlan:
        """The engine default: aggregated on all GPUs, in turn."""
        settings = next(iter(self.replicas.values())).fixed.settings()
        return default_plan(self.space, self.tp, settings)

    def starts(self) -> Sequence[FleetPlan]:
        """Fleets whose pools have the ratio of their work (`fleet_work`)."""
        return starting_plans(self.space, self.replica)

    def axes(self, chosen: Mapping[str, Any]) -> Mapping[str, Axis]:
        """See `FleetSpace.axes`."""
        return self.space.axes(chosen)

    def candidate(self, raw: Mapping[str, Any]) -> FleetPlan:
        """The fleet that the raw values stand for, its settings repaired as one engine's are."""

        def settings(role: str, tp: int, knobs: Mapping[str, Any]) -> EngineConfig:
            return self.replica(role, tp).candidate(knobs)

        return self.space.plan(raw, settings)

    def raw(self, plan: FleetPlan) -> Mapping[str, Any]:
        """Raw values of `plan`, with every setting as the engine resolves it."""
        pools = tuple(replace(p, settings=self.resolved(p).settings()) for p in plan.pools)
        return self.space.raw(replace(plan, pools=pools))

    def worth(self, plan: FleetPlan, metrics: Metrics) -> float:
        """Goodput per GPU; for the fewest GPUs, the inverse of their number."""
        return (1.0 if self.space.fewest else metrics.goodput_rps) / plan.num_gpus

    def evaluate(self, plan: FleetPlan, *, seed: int = 0) -> Metrics:
        """Predicted metrics over every window, with common random numbers."""
        return self.score(self.simulate(plan, seed=seed), plan, seed=seed)

    def score(self, simulation: FleetSimulation, plan: FleetPlan, *, seed: int = 0) -> Metrics:
        """Metrics of `simulation`, that of `plan` on the trace, with those of the windows."""
        drawn = (
            self.simulate(plan, seed=seed + number, trace=window).outcomes
            for number, window in enumerate(self.drawn, start=1)
        )
        return over_windows(simulation.outcomes, drawn, self.slo)

    @cached_property
    def drawn(self) -> list[Trace]:
        """The windows but the first, which is the trace; the same for every fleet."""
        return draw_windows(self.trace, self.windows)

    def simulate(
        self, plan: FleetPlan, *, seed: int = 0, trace: Trace | None = None
    ) -> FleetSimulation:
        """Simulate `plan` on `trace`, by default the problem's. Raises KnobError,
        SimulationError."""
        return simulate_fleet(
            self.trace if trace is None else trace,
            self.fleet(plan),
            itl_limit_s=self.slo.itl_limit_s,
            seed=seed,
        )

    def fleet(self, plan: FleetPlan) -> Fleet:
        """`plan` as the simulator takes it."""
        one, prefill, decode = (plan.pool(role) for role in (AGGREGATED, PREFILL, DECODE))
        moved = 0.0
        if prefill is not None and decode is not None:
            moved = transfer_bytes_per_token(self.kv, prefill_tp=prefill.tp, decode_tp=decode.tp)
        return Fleet(
            aggregated=() if one is None else (self._pool(one),),
            prefill=None if prefill is None else self._pool(prefill),
            decode=None if decode is None else self._pool(decode),
            link=None if decode is None else self.link,
            kv_bytes_per_token=moved,
            router=Router(plan.router, plan.decode_router or Router.decode_rule),
        )

    def resolved(self, pool: PoolSetup) -> EngineConfig:
        """Every setting of the replicas of a pool. Raises KnobError."""
        config = EngineConfig.from_settings(pool.settings)
        return resolve(config, self.replica(pool.role, pool.tp).resolved)

    def _pool(self, pool: PoolSetup) -> Pool:
        one, full = self.replica(pool.role, pool.tp), self.resolved(pool)
        full.check()
        return Pool(full, one.model, one.kv_blocks(full), pool.replicas, pool.tp)

    def use(self, plan: FleetPlan, simulation: FleetSimulation) -> dict[str, dict[str, Any]]:
        """Role -> what its replicas did in `simulation`, and their load by `fleet_work`."""
        found = {}
        for pool in plan.pools:
            uses = getattr(simulation, pool.role)
            counts = [use.num_requests for use in uses]
            found[pool.role] = {
                "load": self._load(pool, sum(counts)),
                "requests": counts,
                "preemptions": sum(use.num_preemptions for use in uses),
            }
        return found

    def _load(self, pool: PoolSetup, num_requests: int) -> float:
        """Work of a pool's requests against what its replicas can do in the trace's time; above 1
        its queue grows without end."""
        work = request_work(
            self.replica(pool.role, pool.tp), EngineConfig.from_settings(pool.settings)
        )
        seconds = {AGGREGATED: work.both_s, PREFILL: work.prefill_s, DECODE: work.decode_s}
        share = num_requests / max(1, self.trace.num_requests)
        return share * self.trace.rate_rps * seconds[pool.role] / pool.replicas


def shortened(problem: FleetProblem, most: int) -> FleetProblem:
    """`problem` on its busiest `most` requests in a row and no other window, for a search.

    What decides the p99s and goodput is the busiest time; every fleet gets the same requests.
    """
    return replace(problem, trace=busiest(problem.trace, most), windows=1)


def busiest(trace: Trace, most: int) -> Trace:
    """The `most` requests in a row with the most tokens per second; all if there are no more."""
    n = trace.num_requests
    if n <= most:
        return trace
    tokens = np.cumsum(np.append(0, trace.prompt_tokens + trace.output_tokens))
    in_row = tokens[most:] - tokens[:-most]
    span_s = trace.arrival_s[most - 1 :] - trace.arrival_s[: n - most + 1]
    start = int(np.argmax(in_row / np.maximum(span_s, 1e-9)))
    return trace.take(np.arange(start, start + most))
