"""Prefill and decode pools: engines with KV connectors, coupled by the transfers between them.

A request is sent to a prefill replica with one output token. When that has finished, the proxy
drops the token and sends the request to a decode replica, which loads the prompt's KV, computes the
last prompt token again and makes all tokens the client sees; the prefill replica holds its blocks
until the load is over. Both are chosen in turn (vLLM's `toy_proxy_server.py`).

Exact, though every engine runs many steps at a time: a replica never passes a moment at which
another could still do something to it. A prefill can reach a decode replica `hop_s` after it ended
at the earliest, and a load ends at least the link's latency after it started.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from profiler.errors import SimulationError
from profiler.outcomes import Outcomes
from profiler.traffic.trace import Trace
from tuner.simulator.pool_build import (
    BoolArray,
    Link,
    Pool,
    PoolPlan,
    build_plan,
    build_replicas,
)
from tuner.simulator.pool_gather import ReplicaUse, gather_pools, replica_use
from tuner.simulator.replica import BlocksMatter, Replica
from tuner.simulator.state import SCHEDULE_AT, FloatArray
from tuner.simulator.transfer_arrays import NUM_RELEASED, NUM_STARTED


@dataclass(frozen=True)
class PoolSimulation:
    """Result of one simulation of a prefill and a decode pool; N requests of the trace."""

    outcomes: Outcomes
    prefill_s: FloatArray
    """(N,) when the prefill replica made its token, seconds; NaN for none"""
    load_start_s: FloatArray
    """(N,) when the decode replica started to load the KV, seconds; NaN for none"""
    load_end_s: FloatArray
    """(N,) when the load was over, seconds; NaN for none"""
    loaded_tokens: FloatArray
    """(N,) prompt tokens that were not in the decode replica's own cache; NaN for none"""
    prefill: tuple[ReplicaUse, ...]
    decode: tuple[ReplicaUse, ...]
    simulation_s: float
    """seconds of the whole run"""


def simulate_pools(  # noqa: PLR0913  (keyword-only options)
    trace: Trace,
    prefill: Pool,
    decode: Pool,
    link: Link,
    *,
    kv_bytes_per_token: float,
    itl_limit_s: FloatArray | None = None,
    seed: int | None = 0,
    fails: BoolArray | None = None,
) -> PoolSimulation:
    """Replay `trace` through a prefill pool and a decode pool of vLLM 0.32 engines.

    Parameters
    ----------
    trace
        Traffic of text; N requests.
    prefill, decode
        The pools.
    link
        Between any prefill and any decode replica.
    kv_bytes_per_token
        What the link moves per prompt token, bytes (`kv_transfer.transfer_bytes_per_token`). Whole
        blocks of the decode replica are moved.
    itl_limit_s
        (C,) ITL limit of each class, seconds, for `Outcomes.num_slow_gaps`; NaN for none.
    seed
        Draws the measured jitter of step times; None leaves it out.
    fails
        (N,) requests whose load fails after its whole time; None for none. The prefill replica
        frees their blocks then, as if they had been sent.

    Returns
    -------
    PoolSimulation
        A request that either pool refuses is REJECTED, one whose load failed under the policy
        "fail" is FAILED. Times are the client's: the first token is the decode replica's.

    Raises
    ------
    KnobError
        A configuration is incomplete or clashes.
    SimulationError
        The latency of the link is not above 0, the trace has images, or the run cannot make
        progress.
    """
    started = time.perf_counter()
    plan = PoolPlan(trace, prefill, decode, link, kv_bytes_per_token, itl_limit_s, seed, fails)
    try:
        run = PoolRun(plan, identities=False)
        run.run()
    except BlocksMatter:
        run = PoolRun(plan, identities=True)
        run.run()
    parts = gather_pools(run.built, run.decode, run.prefill_s)
    return PoolSimulation(
        **parts._asdict(),
        prefill=tuple(replica_use(replica) for replica in run.prefill),
        decode=tuple(replica_use(replica) for replica in run.decode),
        simulation_s=time.perf_counter() - started,
    )


class Place(NamedTuple):
    """Where a request is held: a slot of a prefill replica."""

    replica: int
    slot: int


class PoolRun:
    """The replicas of both pools, and what is on its way between them."""

    def __init__(self, plan: PoolPlan, identities: bool) -> None:
        self.built = build_plan(plan, identities)
        self.prefill, self.decode = build_replicas(self.built)
        self.latency_s, self.hop_s = plan.link.latency_s, self.built.hop_s
        self.ended: list[tuple[float, int]] = []
        """(when, request) of prefills that no decode replica has been given"""
        self.places: dict[int, Place] = {}
        self.loading: list[list[int]] = [[] for _ in self.decode]
        """slots of each decode replica whose load is not over"""
        self.prefill_s = np.full(self.built.num_requests, np.nan)
        self.num_given = 0

    def run(self) -> None:
        """Until every request has ended."""
        while not self._done():
            self._give_ended()
            moved = [self._run_decode(i) for i in range(len(self.decode))]
            moved += [self._run_prefill(i) for i in range(len(self.prefill))]
            if not any(moved) and not self.ended:
                raise SimulationError(
                    "the simulated pools cannot go on: requests wait and nothing runs; "
                    "this is a defect of the simulator, please report it with the settings"
                )

    def _done(self) -> bool:
        return self.num_given == self.built.num_requests and all(
            replica.clock_s == np.inf for replica in self.decode
        )

    def _next_start_s(self) -> float:
        """No load that has not started starts before this, but of prefills that are not known."""
        given = min(replica.next_start_s for replica in self.decode)
        return min([given, *(ended_s + self.hop_s for ended_s, _ in self.ended[:1])])

    def _next_prefill_s(self, replica: Replica) -> float:
        """No prefill of `replica` that is not known ends by then. An idle one may wait for blocks
        whose load has not even started."""
        if replica.is_idle and replica.num_unsent:
            return min(replica.clock_s, self._next_start_s() + self.latency_s)
        return replica.clock_s

    def _give_ended(self) -> None:
        """Give the decode replicas, in turn, the prefills before which no other can end."""
        safe_s = min(self._next_prefill_s(replica) for replica in self.prefill)
        while self.ended and self.ended[0][0] <= safe_s:
            ended_s, request = heappop(self.ended)
            to = self.decode[self.num_given % len(self.decode)]
            to.receive(request, self.built.decode_columns, ended_s + self.hop_s)
            place = self.places[request]
            first_s = self.prefill[place.replica].transfers.moves.first_kv_s[place.slot]
            to.transfers.moves.early_s[len(to.requests) - 1] = ended_s - first_s
            self.num_given += 1

    def _run_decode(self, i: int) -> bool:
        """Run a decode replica up to where the next prefill may reach it."""
        replica = self.decode[i]
        ends = [self._next_prefill_s(p) for p in self.prefill]
        ends += [ended_s for ended_s, _ in self.ended[:1]]
        moved = replica.run(min(ends) + self.hop_s)
        new = replica.take_new(NUM_STARTED)
        if new:
            now = float(replica.state.tally.times[SCHEDULE_AT])
            moves = replica.transfers.moves
            for slot in self.loading[i] + new:  # a later one postpones the others
                place = self.places[replica.requests[slot]]
                self.prefill[place.replica].sent(place.slot, float(moves.end_s[slot]))
            self.loading[i] = [s for s in self.loading[i] + new if moves.end_s[s] > now]
        return moved

    def _run_prefill(self, i: int) -> bool:
        """Run a prefill replica up to where a load that has not started may end."""
        others = [self._next_prefill_s(p) for j, p in enumerate(self.prefill) if j != i]
        start_s = min(self._next_start_s(), min(others, default=np.inf) + self.hop_s)
        replica = self.prefill[i]
        moved = replica.run(start_s + self.latency_s)
        new = replica.take_new(NUM_RELEASED)
        replica.num_unsent += len(new)
        for slot in new:
            request = replica.requests[slot]
            self.places[request] = Place(i, slot)
            self.prefill_s[request] = replica.state.progress.finish_s[slot]
            heappush(self.ended, (float(self.prefill_s[request]), request))
        return moved
