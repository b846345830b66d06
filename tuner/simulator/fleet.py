"""A fleet: aggregated replicas, or a prefill and a decode pool, or some of each, and a router.

A request of a prefill replica is sent there with one output token. When that has finished, the
proxy drops the token and sends the request to a decode replica, which loads the prompt's KV,
computes the last prompt token again and makes all tokens the client sees; the prefill replica holds
its blocks until the load is over (vLLM's `toy_proxy_server.py`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from profiler.errors import SimulationError
from profiler.outcomes import Outcomes
from profiler.traffic.trace import Trace
from tuner.simulator.compilation import prepare
from tuner.simulator.fleet_arrays import DECODES, PREFILLS, SLOTS_FULL, STOPPED
from tuner.simulator.fleet_build import (
    BuiltFleet,
    FleetPlan,
    Room,
    build_fleet,
    check_plan,
)
from tuner.simulator.fleet_gather import (
    ReplicaUse,
    gather_moved,
    gather_outcomes,
    replica_log,
    replica_uses,
)
from tuner.simulator.fleet_kernel import run_fleet
from tuner.simulator.gap_store import GapStore
from tuner.simulator.pool_build import (
    AGGREGATED,
    DECODE,
    PREFILL,
    BoolArray,
    Link,
    Pool,
    Side,
    Wires,
)
from tuner.simulator.router import Router
from tuner.simulator.state import BLOCKS_MATTER, ENDLESS, LOG_FULL, STUCK, FloatArray


@dataclass(frozen=True)
class Fleet:
    """What serves the traffic. Give `aggregated`, or `prefill`, `decode` and `link`, or all."""

    aggregated: tuple[Pool, ...] = ()
    """pools of replicas that do both phases; with the rule "prompt-length" the first one is for
    short prompts, and the others, or `prefill`, for long ones"""
    prefill: Pool | None = None
    decode: Pool | None = None
    link: Link | None = None
    kv_bytes_per_token: float = 0.0
    """what the link moves per prompt token, bytes (`transfer_bytes_per_token`)"""
    router: Router = field(default_factory=Router)

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Every pool: the aggregated ones, prefill, decode."""
        return (*self.aggregated, *(p for p in (self.prefill, self.decode) if p is not None))

    @property
    def num_gpus(self) -> int:
        return sum(pool.num_replicas * pool.num_gpus for pool in self.pools)


@dataclass(frozen=True)
class FleetSimulation:
    """Result of one simulation of a fleet; N requests of the trace."""

    outcomes: Outcomes
    replica: FloatArray
    """(N,) first replica of each request, numbered over the aggregated pools, then prefill; NaN for
    a rejected one"""
    prefill_s: FloatArray
    """(N,) when its prefill replica made its token, seconds; NaN for none"""
    load_start_s: FloatArray
    """(N,) when its decode replica started to load the KV, seconds; NaN for none"""
    load_end_s: FloatArray
    """(N,) when the load was over, seconds; NaN for none"""
    loaded_tokens: FloatArray
    """(N,) prompt tokens that were not in the decode replica's own cache; NaN for none"""
    decode_replica: FloatArray
    """(N,) decode replica of each request, numbered on after the first ones; NaN for none"""
    aggregated: tuple[ReplicaUse, ...]
    """in order of the pools"""
    prefill: tuple[ReplicaUse, ...]
    decode: tuple[ReplicaUse, ...]
    endless: bool
    """an engine itself would hang: requests with equal rights in a pool that is too small preempt
    each other for ever. The simulation stopped there; the others' status is UNFINISHED"""
    simulation_s: float
    """seconds of the whole run"""


def simulate_fleet(
    trace: Trace,
    fleet: Fleet,
    *,
    itl_limit_s: FloatArray | None = None,
    seed: int | None = 0,
    fails: BoolArray | None = None,
) -> FleetSimulation:
    """Replay `trace` through a fleet of vLLM 0.32 engines, each an exact copy.

    Parameters
    ----------
    trace
        Traffic of text; N requests.
    fleet
        The pools, what ties them, and the router. `router.py` says what each rule does.
    itl_limit_s
        (C,) ITL limit of each class, seconds, for `Outcomes.num_slow_gaps`; NaN for none.
    seed
        Draws the measured jitter of step times, for replica i with seed + i; None leaves it out.
    fails
        (N,) requests whose load fails after its whole time, if they are sent to a prefill replica;
        None for none. The prefill replica frees their blocks then, as if they had been sent.

    Returns
    -------
    FleetSimulation
        A request that no pool takes is REJECTED, one whose load failed under the policy "fail" is
        FAILED. Times are the client's: the first token is the aggregated or decode replica's.

    Raises
    ------
    KnobError
        A configuration is incomplete or clashes.
    SimulationError
        The fleet has no pool or half a split, the latency of the link is not above 0, the router's
        rule does not fit the fleet, the trace has images, or the run cannot make progress.
    """
    started = time.perf_counter()
    plan = plan_fleet(trace, fleet, itl_limit_s, seed, fails)
    check_plan(plan)
    prepare(fleet=True)
    room, status = Room(), SLOTS_FULL
    while status in (BLOCKS_MATTER, SLOTS_FULL):
        built = build_fleet(plan, room)
        status, gaps = run_built(built)
        if status == BLOCKS_MATTER:
            room = room._replace(identities=True)
        elif status == SLOTS_FULL:
            room = room._replace(growth=4 * room.growth)
    if status == STUCK:
        raise SimulationError(
            "the simulated fleet cannot go on: requests wait and nothing runs; "
            "this is a defect of the simulator, please report it with the settings"
        )
    uses, counts = replica_uses(built.arrays), built.arrays.counts
    return FleetSimulation(
        outcomes=gather_outcomes(built, gaps),
        **gather_moved(built)._asdict(),
        aggregated=tuple(uses[: counts[PREFILLS]]),
        prefill=tuple(uses[counts[PREFILLS] : counts[DECODES]]),
        decode=tuple(uses[counts[DECODES] :]),
        endless=status == ENDLESS,
        simulation_s=time.perf_counter() - started,
    )


def plan_fleet(
    trace: Trace,
    fleet: Fleet,
    itl_limit_s: FloatArray | None,
    seed: int | None,
    fails: BoolArray | None,
) -> FleetPlan:
    """The plan of a fleet; `SimulationError` when parts are missing."""
    sides, wires = [Side(pool, AGGREGATED) for pool in fleet.aggregated], None
    if fleet.prefill is not None and fleet.decode is not None and fleet.link is not None:
        hop_s = fleet.prefill.model.frontend_out_s + fleet.decode.model.frontend_in_s
        wires = Wires(fleet.link, hop_s, fleet.kv_bytes_per_token)
        sides += [Side(fleet.prefill, PREFILL), Side(fleet.decode, DECODE)]
    elif fleet.prefill is not None or fleet.decode is not None:
        raise SimulationError("a split fleet needs prefill, decode and link; give all three")
    if not sides:
        raise SimulationError("a fleet needs a pool; give aggregated, or prefill and decode")
    if itl_limit_s is None:
        itl_limit_s = np.full(len(trace.class_names), np.nan)
    if fails is None:
        fails = np.zeros(trace.num_requests, np.bool_)
    return FleetPlan(trace, tuple(sides), wires, fleet.router, itl_limit_s, seed, fails)


def run_built(built: BuiltFleet) -> tuple[int, list[GapStore]]:
    """Call the kernel until it has finished, emptying the logs that are full."""
    fleet = built.arrays
    gaps = [GapStore(built.plan.itl_limit_s.size) for _ in fleet.replicas.pool]
    while True:
        status = int(run_fleet(fleet, built.settings))
        if status != LOG_FULL:
            return status, gaps
        stopped = int(fleet.counts[STOPPED])
        gaps[stopped].drain(replica_log(fleet, stopped))
