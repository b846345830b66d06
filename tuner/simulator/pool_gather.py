"""What a simulation of pools returns, gathered from the replicas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from profiler.outcomes import Outcomes, Status
from tuner.simulator.pool_build import BoolArray, BuiltPlan
from tuner.simulator.replica import Replica
from tuner.simulator.state import (
    CACHED_TOKENS,
    LAST_END,
    NUM_PREEMPTIONS,
    NUM_STEPS,
    FloatArray,
    IntArray,
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


class PoolParts(NamedTuple):
    """The columns of `pools.PoolSimulation`."""

    outcomes: Outcomes
    prefill_s: FloatArray
    load_start_s: FloatArray
    load_end_s: FloatArray
    loaded_tokens: FloatArray


def replica_use(replica: Replica) -> ReplicaUse:
    """Totals of one replica."""
    counts, times = replica.state.tally.counts, replica.state.tally.times
    return ReplicaUse(
        num_requests=len(replica.requests),
        num_steps=int(counts[NUM_STEPS]),
        num_preemptions=int(counts[NUM_PREEMPTIONS]),
        cached_tokens=int(counts[CACHED_TOKENS]),
        last_end_s=float(times[LAST_END]),
    )


def gather_pools(built: BuiltPlan, decode: list[Replica], prefill_s: FloatArray) -> PoolParts:
    """Outcomes and transfers of all requests of the trace, the rejected ones included."""
    k, trace = built.num_requests, built.plan.trace
    first, finish, start, end, loaded = (np.full(k, np.nan) for _ in range(5))
    output, slow = np.zeros(k, dtype=np.int64), np.zeros(k, dtype=np.int64)
    status = np.full(k, Status.UNFINISHED, dtype=np.int64)
    for replica in decode:
        state, at = replica.state, np.array(replica.requests, dtype=np.int64)
        slots, moves = slice(0, at.size), replica.transfers.moves
        first[at], finish[at] = state.progress.first_token_s[slots], state.progress.finish_s[slots]
        start[at] = moves.start_s[slots]
        end[at] = np.where(np.isnan(start[at]), np.nan, moves.end_s[slots])
        loaded[at] = state.requests.prompt_tokens[slots] - moves.hit_tokens[slots]
        ended = ~np.isnan(finish[at])
        output[at] = np.where(
            ended, state.requests.max_output[slots], state.progress.outputs[slots]
        )
        slow[at] = state.progress.num_slow[slots]
        status[at] = np.where(ended, Status.FINISHED, status[at])
        status[at] = np.where(moves.stage[slots] == FAILED, Status.FAILED, status[at])
    accepted, out_s = built.accepted, built.plan.decode.model.frontend_out_s
    whole = np.full(accepted.size, Status.REJECTED, dtype=np.int64)
    whole[accepted] = status
    gaps = [replica.gaps.take(replica.state) for replica in decode]
    outcomes = Outcomes(
        arrival_s=trace.arrival_s,
        first_token_s=spread(first + out_s, accepted),
        finish_s=spread(finish + out_s, accepted),
        prompt_tokens=trace.prompt_tokens,
        output_tokens=spread_counts(output, accepted),
        status=whole,
        request_class=trace.classes,
        num_slow_gaps=spread_counts(slow, accepted),
        itl_limit_s=built.itl_limit_s,
        gap_s=np.concatenate([gap_s for gap_s, _ in gaps]),
        gap_weight=np.concatenate([weight for _, weight in gaps]),
    )
    times = (spread(column, accepted) for column in (prefill_s, start, end, loaded))
    return PoolParts(outcomes, *times)


def spread_counts(values: IntArray, accepted: BoolArray) -> IntArray:
    """(N,) `values` at the accepted requests, 0 at the rejected ones."""
    whole = np.zeros(accepted.size, dtype=np.int64)
    whole[accepted] = values
    return whole
