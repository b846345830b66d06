"""From pools, a router and a trace to the arrays that `run_fleet` runs on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from profiler.errors import SimulationError
from profiler.traffic.trace import Trace
from tuner.simulator.build import NUM_JITTER, draw_jitter
from tuner.simulator.fleet_arrays import (
    DECODE_RULE,
    DECODES,
    HOP,
    LATENCY,
    MAX_POOLS,
    NUM_FLEET_COUNTS,
    NUM_FLEET_TIMES,
    PREFILL_OUT,
    PREFILLS,
    RULE,
    SHARED,
    SLOTS,
    Columns,
    Course,
    FleetArrays,
    Replicas,
    Settings,
    Slots,
    Traffic,
)
from tuner.simulator.fleet_layout import Tiles, lay_out
from tuner.simulator.memory import as_records, ints
from tuner.simulator.pool_build import (
    AGGREGATED,
    DECODE,
    BoolArray,
    BuiltPool,
    Side,
    Wires,
    accepts,
    build_pool,
    empty_replica,
)
from tuner.simulator.prefix_keys import prefix_blocks
from tuner.simulator.router import ROUND_ROBIN, Router
from tuner.simulator.routing_build import RULE_CODES, build_routing, group_replicas, group_requests
from tuner.simulator.state import NONE, STUCK, FloatArray, IntArray


class FleetPlan(NamedTuple):
    """What is simulated."""

    trace: Trace
    sides: tuple[Side, ...]
    """aggregated pools, then prefill and decode"""
    wires: Wires | None
    router: Router
    itl_limit_s: FloatArray
    """(C,)"""
    seed: int | None
    fails: BoolArray
    """(N,)"""

    @property
    def numbers(self) -> list[int]:
        """Replicas of each pool."""
        return [side.pool.num_replicas for side in self.sides]

    @property
    def num_first(self) -> int:
        """Aggregated and prefill replicas."""
        return sum(side.pool.num_replicas for side in self.sides if side.role != DECODE)


class Room(NamedTuple):
    """What a run may find that it needs, after it has begun."""

    identities: bool = False
    """blocks have identities in every pool that caches"""
    growth: int = 1
    """slots for so many times as many requests as each replica would get of an even spread"""


class BuiltFleet(NamedTuple):
    """Ready to run; K accepted requests."""

    plan: FleetPlan
    accepted: BoolArray
    """(N,)"""
    arrays: FleetArrays
    settings: Settings


def check_plan(plan: FleetPlan) -> None:
    """Raise `SimulationError` for a fleet that cannot be simulated."""
    if plan.trace.images is not None:
        raise SimulationError(
            "fleets are simulated for text only; take the images out of the trace"
        )
    if len(plan.sides) > MAX_POOLS:
        raise SimulationError(
            f"a fleet has at most {MAX_POOLS} pools, got {len(plan.sides)}; "
            "put replicas with equal settings into one pool"
        )
    for side in plan.sides:
        if side.pool.num_replicas < 1:
            raise SimulationError(
                f"a pool needs at least one replica, got {side.pool.num_replicas}; leave it out"
            )
    if plan.wires is not None and not plan.wires.link.latency_s > 0.0:
        raise SimulationError(
            f"the latency of a link must be above 0 s, got {plan.wires.link.latency_s}; "
            "give its real one"
        )
    if plan.wires is not None and plan.wires.link.overlap_layers < 1:
        raise SimulationError(
            f"overlap_layers of a link must be at least 1, got {plan.wires.link.overlap_layers}; "
            "give the model's number of layers, or 1 for no overlap"
        )


def accepted_by(plan: FleetPlan) -> BoolArray:
    """(P, N) which requests each pool can be sent. What the decode pool refuses is not sent to the
    prefill pool."""
    takes = np.stack([accepts(plan.trace, side) for side in plan.sides])
    if plan.wires is not None:
        takes[-2:] = takes[-2] & takes[-1]
    return takes


def build_fleet(plan: FleetPlan, room: Room) -> BuiltFleet:
    """The replicas, none of which has been sent anything."""
    takes = accepted_by(plan)
    accepted: BoolArray = np.any(takes, axis=0)
    takes = np.ascontiguousarray(takes[:, accepted])
    pools = [
        build_pool(plan.trace, accepted, side, plan.wires, room.identities) for side in plan.sides
    ]
    num_slots = [slots_for(plan, int(accepted.sum()), side, room.growth) for side in plan.sides]
    states = [
        empty_replica(pool, takes[p], num_slots[p], plan.itl_limit_s)
        for p, pool in enumerate(pools)
    ]
    layout = lay_out(Tiles(states, plan.numbers))
    size = int(layout.at[-1, SLOTS])
    arrays = FleetArrays(
        layout.flat,
        layout.transfers,
        layout.at,
        build_replicas(plan),
        build_traffic(plan, accepted, pools),
        empty_course(int(accepted.sum())),
        build_columns(plan, pools, takes),
        Slots(ints(size), ints(size)),
        build_routing(plan.trace, accepted, plan.router, sum(plan.numbers)),
        *build_counts(plan),
    )
    return BuiltFleet(plan, accepted, arrays, build_settings(plan, pools))


def slots_for(plan: FleetPlan, num_requests: int, side: Side, growth: int) -> int:
    """Slots of each replica of a pool, one more than the requests that it may be sent. About 300
    bytes each."""
    among = side.pool.num_replicas if side.role == DECODE else plan.num_first
    rule = plan.router.decode_rule if side.role == DECODE else plan.router.rule
    spread = 1 if rule == ROUND_ROBIN else 4
    return max(1, min(num_requests, 64 + growth * spread * -(-num_requests // among))) + 1


def build_replicas(plan: FleetPlan) -> Replicas:
    """Replicas at rest."""
    r = sum(plan.numbers)
    columns: dict[str, Any] = {name: ints(r) for name in Replicas._fields}
    columns |= {"clock_s": np.full(r, np.inf), "last_key_s": np.full(r, np.nan)}
    columns["pool"] = np.repeat(np.arange(len(plan.sides)), plan.numbers)
    columns["status"] = ints(r, STUCK)
    shorts = plan.sides[0].pool.num_replicas if plan.sides[0].role == AGGREGATED else 0
    columns["group"][: plan.num_first] = group_replicas(plan.router, plan.num_first, shorts)
    return as_records(Replicas(**columns))


def build_traffic(plan: FleetPlan, accepted: BoolArray, pools: Sequence[BuiltPool]) -> Traffic:
    """The accepted requests."""
    trace, requests = plan.trace, pools[0].requests
    priority = np.zeros(trace.num_requests, np.int64) if trace.priority is None else trace.priority
    offsets = trace.prefix_offsets
    start = np.zeros(trace.num_requests, np.int64) if offsets is None else offsets[:-1]
    return as_records(
        Traffic(
            arrival_s=trace.arrival_s[accepted].astype(np.float64),
            prompt_tokens=requests.prompt_tokens.copy(),
            klass=requests.klass.copy(),
            rank=np.unique(priority[accepted], return_inverse=True)[1].astype(np.int64),
            fails=plan.fails[accepted].astype(np.int64),
            group=group_requests(trace, plan.router)[accepted],
            prefix_start=start[accepted].astype(np.int64),
            num_alike=prefix_blocks(trace).shared[accepted],
        )
    )


def empty_course(num_requests: int) -> Course:
    """Nothing has happened yet."""
    none = ints(num_requests, NONE)
    return as_records(Course(none, none.copy(), none.copy(), np.full(num_requests, np.nan)))


def build_columns(plan: FleetPlan, pools: Sequence[BuiltPool], takes: BoolArray) -> Columns:
    """What differs between pools."""
    k = takes.shape[1]

    def stack(columns: list[IntArray]) -> IntArray:
        return np.stack([c if c.size else ints(k) for c in columns]).astype(np.int64)

    models = [side.pool.model for side in plan.sides]
    return Columns(
        np.array([model.frontend_in_s for model in models], dtype=np.float64),
        np.array([model.frontend_out_s for model in models], dtype=np.float64),
        takes,
        stack([pool.requests.max_output for pool in pools]),
        stack([pool.prefixes.shared for pool in pools]),
        stack([pool.prefixes.private for pool in pools]),
    )


def build_counts(plan: FleetPlan) -> tuple[IntArray, FloatArray]:
    """`FleetArrays.counts` and `FleetArrays.times`."""
    counts, times = ints(NUM_FLEET_COUNTS), np.zeros(NUM_FLEET_TIMES)
    aggregated = sum(s.pool.num_replicas for s in plan.sides if s.role == AGGREGATED)
    counts[[PREFILLS, DECODES]] = aggregated, plan.num_first
    counts[RULE] = RULE_CODES[plan.router.rule]
    counts[DECODE_RULE] = RULE_CODES[plan.router.decode_rule]
    if plan.wires is not None:
        counts[SHARED] = int(plan.wires.link.shared)
        times[HOP], times[LATENCY] = plan.wires.hop_s, plan.wires.link.latency_s
        times[PREFILL_OUT] = plan.sides[-2].pool.model.frontend_out_s
    return counts, times


def build_settings(plan: FleetPlan, pools: Sequence[BuiltPool]) -> Settings:
    """What each pool is run with; each replica draws jitter of its own."""
    filled = [*pools, *[pools[0]] * (MAX_POOLS - len(pools))]
    jitter = np.ones((sum(plan.numbers), 1 if plan.seed is None else NUM_JITTER))
    sides = [side for side in plan.sides for _ in range(side.pool.num_replicas)]
    for i, side in enumerate(sides):
        seed = None if plan.seed is None else plan.seed + i
        jitter[i] = draw_jitter(side.pool.model.residuals, seed)
    return Settings(
        tuple(pool.limits for pool in filled),
        tuple(pool.rules for pool in filled),
        tuple(pool.side.pool.model.params for pool in filled),
        jitter,
    )
