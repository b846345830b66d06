"""The queue of waiting requests that hold KV blocks (`kv_holding_waiting` of vLLM 0.32)."""

from __future__ import annotations

from profiler.compiled import inner
from tuner.simulator.lists import insert_after, remove
from tuner.simulator.state import (
    NONE,
    Limits,
    State,
)
from tuner.simulator.transfer_arrays import (
    KV_HEAD,
    KV_TAIL,
    LOADING,
    NUM_WITH_KV,
    Transfers,
)
from tuner.simulator.waiting import is_before


@inner
def skip_loading(transfers: Transfers, r: int) -> int:
    """The first from `r` on, in the queue of those that hold KV, whose load is over; or NONE."""
    while r != NONE and transfers.moves.stage[r] == LOADING:
        r = transfers.moves.next[r]
    return r


@inner
def enter_kv_queue(transfers: Transfers, state: State, limits: Limits, r: int) -> None:
    """Put `r` into the queue of those that hold KV: at the end, or at its place by priority."""
    moves, counts = transfers.moves, transfers.counts
    counts[NUM_WITH_KV] += 1
    before = counts[KV_TAIL]
    if limits.priority:
        while before != NONE and is_before(state.requests.urgency, r, before):
            before = moves.prev[before]
    insert_after(counts, moves.prev, moves.next, KV_HEAD, before, r)


@inner
def leave_kv_queue(transfers: Transfers, r: int) -> None:
    """Take `r` out of the queue of those that hold KV."""
    moves = transfers.moves
    remove(transfers.counts, moves.prev, moves.next, KV_HEAD, r)
    transfers.counts[NUM_WITH_KV] -= 1
