"""What a simulation of a fleet returns, gathered from its arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from profiler.outcomes import Outcomes, Status
from tuner.simulator.fleet_arrays import DECODES, PREFILLS, SLOTS, BoolArray, FleetArrays
from tuner.simulator.fleet_build import BuiltFleet
from tuner.simulator.fleet_states import cut_log, cut_tally
from tuner.simulator.gap_store import GapStore
from tuner.simulator.state import (
    CACHED_TOKENS,
    LAST_END,
    NONE,
    NUM_PREEMPTIONS,
    NUM_STEPS,
    FloatArray,
    IntArray,
    State,
)
from tuner.simulator.timeline import spread
from tuner.simulator.transfer_arrays import FAILED


@dataclass(frozen=True)
class ReplicaUse:
    """What one replica did."""

    num_requests: int
    num_steps: int
    num_preemptions: int
    cached_tokens: int
    """prompt tokens that were in its prefix cache when requests were first admitted or loaded"""
    last_end_s: float
    """end of its last step, seconds"""


class Moved(NamedTuple):
    """The columns of `fleet.FleetSimulation` beside its outcomes; each (N,)."""

    replica: FloatArray
    decode_replica: FloatArray
    prefill_s: FloatArray
    load_start_s: FloatArray
    load_end_s: FloatArray
    loaded_tokens: FloatArray


class Filled(NamedTuple):
    """Slots that answer a client: those of aggregated and decode replicas."""

    at: IntArray
    """(S,) entry of the arrays cut at SLOTS"""
    request: IntArray
    """(S,)"""
    replica: IntArray
    """(S,)"""


def replica_log(fleet: FleetArrays, i: int) -> State:
    """The state of replica `i` as far as a `GapStore` reads it."""
    a, b = fleet.at[i], fleet.at[i + 1]
    flat = fleet.flat
    log = cut_log(flat.log, flat.tally.itl_limit_s.size, a, b)
    return flat._replace(tally=cut_tally(flat.tally, i, a, b), log=log)


def replica_uses(fleet: FleetArrays) -> list[ReplicaUse]:
    """Totals of each replica."""
    counts, times = fleet.flat.tally.counts, fleet.flat.tally.times
    return [
        ReplicaUse(
            num_requests=int(fleet.replicas.num_given[i]),
            num_steps=int(counts[i, NUM_STEPS]),
            num_preemptions=int(counts[i, NUM_PREEMPTIONS]),
            cached_tokens=int(counts[i, CACHED_TOKENS]),
            last_end_s=float(times[i, LAST_END]),
        )
        for i in range(counts.shape[0])
    ]


def find_filled(fleet: FleetArrays) -> Filled:
    """The filled slots of aggregated and decode replicas."""
    given, r = fleet.replicas.num_given, fleet.replicas.pool.size
    some = [*range(fleet.counts[PREFILLS]), *range(fleet.counts[DECODES], r)]
    ranges = [np.arange(given[i]) + fleet.at[i, SLOTS] for i in some]
    at = np.concatenate(ranges).astype(np.int64)
    return Filled(at, fleet.slots.request[at], np.repeat(some, given[some]))


def gather_outcomes(built: BuiltFleet, gaps: list[GapStore]) -> Outcomes:
    """Outcomes of all requests of the trace, the rejected ones included."""
    fleet, accepted, trace = built.arrays, built.accepted, built.plan.trace
    filled, k = find_filled(fleet), int(accepted.sum())
    at, progress = filled.at, fleet.flat.progress
    first, finish = np.full(k, np.nan), np.full(k, np.nan)
    output, slow = np.zeros(k, dtype=np.int64), np.zeros(k, dtype=np.int64)
    status = np.full(k, Status.UNFINISHED, dtype=np.int64)
    out_s = fleet.columns.out_s[fleet.replicas.pool[filled.replica]]
    first[filled.request] = progress.first_token_s[at] + out_s
    finish[filled.request] = progress.finish_s[at] + out_s
    ended = ~np.isnan(progress.finish_s[at])
    output[filled.request] = np.where(
        ended, fleet.flat.requests.max_output[at], progress.outputs[at]
    )
    slow[filled.request] = progress.num_slow[at]
    failed = fleet.transfers.moves.stage[at] == FAILED
    found = np.where(ended, Status.FINISHED, Status.UNFINISHED)
    status[filled.request] = np.where(failed, Status.FAILED, found)
    whole = np.full(accepted.size, Status.REJECTED, dtype=np.int64)
    whole[accepted] = status
    taken = [store.take(replica_log(fleet, i)) for i, store in enumerate(gaps)]
    return Outcomes(
        arrival_s=trace.arrival_s,
        first_token_s=spread(first, accepted),
        finish_s=spread(finish, accepted),
        prompt_tokens=trace.prompt_tokens,
        output_tokens=spread_counts(output, accepted),
        status=whole,
        request_class=trace.classes,
        num_slow_gaps=spread_counts(slow, accepted),
        itl_limit_s=built.plan.itl_limit_s,
        gap_s=np.concatenate([gap_s for gap_s, _ in taken]),
        gap_weight=np.concatenate([weight for _, weight in taken]),
    )


def gather_moved(built: BuiltFleet) -> Moved:
    """Where each request went, and when its KV moved."""
    fleet, accepted = built.arrays, built.accepted
    filled, course = find_filled(fleet), fleet.course
    loads = filled.replica >= fleet.counts[DECODES]
    at, request = filled.at[loads], filled.request[loads]
    moves = fleet.transfers.moves
    start, end, loaded = (np.full(course.first.size, np.nan) for _ in range(3))
    start[request] = moves.start_s[at]
    end[request] = np.where(np.isnan(moves.start_s[at]), np.nan, moves.end_s[at])
    loaded[request] = fleet.flat.requests.prompt_tokens[at] - moves.hit_tokens[at]
    columns = (number(course.first), number(course.decode), course.prefill_s, start, end, loaded)
    return Moved(*(spread(column, accepted) for column in columns))


def number(replica: IntArray) -> FloatArray:
    """Numbers of replicas, NaN for none."""
    return np.where(replica == NONE, np.nan, replica)


def spread_counts(values: IntArray, accepted: BoolArray) -> IntArray:
    """(N,) `values` at the accepted requests, 0 at the rejected ones."""
    whole = np.zeros(accepted.size, dtype=np.int64)
    whole[accepted] = values
    return whole
