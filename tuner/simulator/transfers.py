"""KV transfers as the scheduler sees them: blocks held after the end, reports, fenced victims.

Mirrors `_update_from_kv_xfer_finished`, `_handle_invalid_blocks`, `_free_request` and
`_request_blocks_can_be_freed` of `vllm/v1/core/sched/scheduler.py` of vLLM 0.32. `transfers` is
None for an engine without a KV connector. A transfer that ends while a step runs is reported with
that step's output (`get_finished` is called after the forward pass); an idle engine polls.
"""

from __future__ import annotations

import numpy as np

from profiler.compiled import inner
from tuner.simulator.blocks import computed_tokens, extra_blocks, free_blocks
from tuner.simulator.kv_queue import leave_kv_queue
from tuner.simulator.link import drain_link, leave_link
from tuner.simulator.lists import append, remove
from tuner.simulator.state import (
    DONE,
    NONE,
    NUM_FINISHED,
    SCHEDULE_AT,
    Limits,
    State,
)
from tuner.simulator.tables import blocks_for
from tuner.simulator.transfer_arrays import (
    ARRIVED,
    FAILED,
    HELD,
    HELD_HEAD,
    KV_HEAD,
    LOADING,
    NEXT_END,
    NUM_RELEASED,
    NUM_WITH_KV,
    SENT,
    UNTIL,
    Transfers,
)


@inner
def num_with_kv(transfers: Transfers | None) -> int:
    """Waiting requests that hold KV blocks."""
    return 0 if transfers is None else transfers.counts[NUM_WITH_KV]


@inner
def next_transfer_s(transfers: Transfers | None) -> float:
    """Earliest known end of a transfer that has not been reported."""
    return np.inf if transfers is None else transfers.times[NEXT_END]


@inner
def until_s(transfers: Transfers | None) -> float:
    """schedule() calls from here on must wait for the other engines."""
    return np.inf if transfers is None else transfers.times[UNTIL]


@inner
def chunk_blocks(state: State, limits: Limits, r: int) -> int:
    """New blocks for the chunk of the partial prefill `r`. One whose load failed in part holds
    blocks for its whole prompt."""
    computed, chunk = state.progress.computed[r], state.progress.chunk[r]
    if not limits.identities:
        return extra_blocks(limits, computed, chunk)
    return max(0, blocks_for(computed + chunk, limits.block_size) - state.pool.holders.held[r])


@inner
def note_end(transfers: Transfers, r: int, when: float) -> None:
    """`r` has ended at `when`, and the scheduler knows."""
    i = transfers.counts[NUM_RELEASED]
    transfers.released[i], transfers.released_s[i] = r, when
    transfers.counts[NUM_RELEASED] = i + 1


@inner
def hold_blocks(transfers: Transfers, state: State, r: int) -> bool:
    """`r` has finished; returns whether its blocks stay until they are sent (delay_free_blocks)."""
    moves, counts, times = transfers.moves, transfers.counts, transfers.times
    note_end(transfers, r, state.progress.finish_s[r])
    if moves.hands_over[r] == 0:
        return False
    append(counts, moves.prev, moves.next, HELD_HEAD, r)
    moves.stage[r] = HELD
    moves.end_s[r] = state.progress.finish_s[r] + moves.duration_s[r]
    times[NEXT_END] = min(times[NEXT_END], moves.end_s[r])
    times[UNTIL] = min(times[UNTIL], state.progress.finish_s[r] + transfers.rules.lookahead_s)
    return True


@inner
def first_ended(transfers: Transfers, head: int, stage: int, now: float) -> int:
    """Of the list at counts[head]: the one in `stage` whose transfer ended first, by `now`."""
    moves, best = transfers.moves, NONE
    r = transfers.counts[head]
    while r != NONE:
        ended = moves.stage[r] == stage and moves.end_s[r] <= now
        if ended and (best == NONE or moves.end_s[r] < moves.end_s[best]):
            best = r
        r = moves.next[r]
    return best


@inner
def see_transfers(transfers: Transfers, state: State, limits: Limits) -> None:
    """The worker has reported the transfers that ended by this schedule() call: loads
    (finished_recving), then blocks sent (finished_sending), each in order of their ends."""
    moves, times, now = transfers.moves, transfers.times, state.tally.times[SCHEDULE_AT]
    if transfers.rules.shared:
        drain_link(transfers, now)
    if times[NEXT_END] > now:
        return
    while True:
        r = first_ended(transfers, KV_HEAD, LOADING, now)
        if r == NONE:
            break
        moves.stage[r] = ARRIVED
        leave_link(transfers, r)
        if moves.fails[r] == 1:
            fail_load(transfers, state, limits, r)
    while True:
        r = first_ended(transfers, HELD_HEAD, HELD, now)
        if r == NONE:
            break
        moves.stage[r] = SENT
        remove(transfers.counts, moves.prev, moves.next, HELD_HEAD, r)
        free_blocks(state, limits, r, computed_tokens(state, r))
    times[NEXT_END] = find_next_end(transfers)


@inner
def find_next_end(transfers: Transfers) -> float:
    """Earliest known end of a transfer that has not been reported."""
    moves, soonest = transfers.moves, np.inf
    for head in (KV_HEAD, HELD_HEAD):
        r = transfers.counts[head]
        while r != NONE:
            if moves.stage[r] == LOADING or moves.stage[r] == HELD:
                soonest = min(soonest, moves.end_s[r])
            r = moves.next[r]
    return soonest


@inner
def ends_now(transfers: Transfers, state: State, r: int) -> bool:
    """Whether the failed load of `r` has just been reported, which ends the request."""
    moves = transfers.moves
    failed = moves.stage[r] == LOADING and moves.fails[r] == 1 and not transfers.rules.recomputes
    return failed and moves.end_s[r] <= state.tally.times[SCHEDULE_AT]


@inner
def fail_load(transfers: Transfers, state: State, limits: Limits, r: int) -> None:
    """The load of `r` failed: nothing of it arrived. Its own hits are all it has, or it ends."""
    moves = transfers.moves
    state.progress.computed[r] = moves.hit_tokens[r]
    if transfers.rules.recomputes:
        return
    leave_kv_queue(transfers, r)
    moves.stage[r] = FAILED
    note_end(transfers, r, state.tally.times[SCHEDULE_AT])
    free_blocks(state, limits, r, state.requests.prompt_tokens[r])
    state.progress.phase[r] = DONE
    state.tally.counts[NUM_FINISHED] += 1
