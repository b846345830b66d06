"""The waiting pass of an engine with a KV connector: loads start, loaded requests are admitted.

Mirrors the second half of `Scheduler.schedule`, `_update_waiting_for_remote_kv` and
`_inflight_prefill_reserved_blocks` of `vllm/v1/core/sched/scheduler.py` of vLLM 0.32, with a
connector that loads the whole prompt but what the own prefix cache has (NIXL's
`get_num_new_matched_tokens`). A load holds blocks but no slot, and is never preempted.
"""

from __future__ import annotations

from profiler.compiled import inner
from tuner.simulator.blocks import can_admit, free_blocks
from tuner.simulator.link import bytes_after_prefill, time_load
from tuner.simulator.lists import append, append_partial, append_running
from tuner.simulator.scheduler import (
    chunk_size,
    fit_waiting,
    remaining_tokens,
    start_prefill,
)
from tuner.simulator.state import (
    BLOCKED,
    CACHED_TOKENS,
    FREE_BLOCKS,
    NONE,
    NUM_RUNNING,
    PART_HEAD,
    PREFILLING,
    SCHEDULE_AT,
    Limits,
    State,
)
from tuner.simulator.tables import (
    blocks_for,
    claim_table,
    find_hits,
    grow_table,
    hash_full_blocks,
)
from tuner.simulator.transfer_arrays import (
    ARRIVED,
    KV_HEAD,
    KV_TAIL,
    LOADING,
    LOCAL,
    LOST,
    NEXT_END,
    NUM_STARTED,
    NUM_WITH_KV,
    READY,
    REMOTE,
    Transfers,
)
from tuner.simulator.transfers import leave_kv_queue
from tuner.simulator.waiting import is_before, pop_waiting, waiting_head


@inner
def admit_any(
    transfers: Transfers, state: State, limits: Limits, threshold: int, left: int
) -> None:
    """The waiting pass, with `left` tokens of the budget: those that hold KV first, but for those
    whose load still runs. Strict head-of-line. Writes BLOCKED."""
    moves, counts = transfers.moves, state.tally.counts
    kv = skip_loading(transfers, transfers.counts[KV_HEAD])
    r = kv if kv != NONE else waiting_head(state, limits)
    while r != NONE and left > 0 and counts[NUM_RUNNING] < limits.max_active:
        if moves.stage[r] == ARRIVED:
            promote(transfers, state, limits, r)
        if moves.stage[r] == REMOTE:
            if not start_load(transfers, state, limits, r):
                break
        else:
            hits, n = fit_loaded(state, limits, r, threshold, left)
            if moves.stage[r] != READY:
                hits, n = fit_waiting(state, limits, r, threshold, left)
            if n == 0:
                break
            if kv == NONE:
                pop_waiting(state, limits)
            else:
                kv = skip_loading(transfers, moves.next[kv])
                leave_kv_queue(transfers, r)
            start(transfers, state, limits, r, (hits, n))
            left -= n
        r = kv if kv != NONE else waiting_head(state, limits)
    counts[BLOCKED] = 1 if r != NONE else 0


@inner
def skip_loading(transfers: Transfers, r: int) -> int:
    """The first from `r` on, in the queue of those that hold KV, whose load is over; or NONE."""
    while r != NONE and transfers.moves.stage[r] == LOADING:
        r = transfers.moves.next[r]
    return r


@inner
def promote(transfers: Transfers, state: State, limits: Limits, r: int) -> None:
    """The load of `r` is over (_update_waiting_for_remote_kv): its blocks are hashed, and of a
    whole prompt the last token is computed again, to sample from it. A failed load without hits
    of its own gives its blocks back."""
    moves, progress = transfers.moves, state.progress
    moves.stage[r] = READY
    if progress.computed[r] == 0:
        moves.stage[r] = LOST
        free_blocks(state, limits, r, state.requests.prompt_tokens[r])
        return
    if limits.identities:
        hash_full_blocks(state, limits, r, progress.computed[r])
    if remaining_tokens(state, r) == 0:
        progress.computed[r] -= 1


@inner
def fit_loaded(state: State, limits: Limits, r: int, threshold: int, left: int) -> tuple[int, int]:
    """`fit_waiting` for the loaded `r`, which holds blocks for its prompt: no hits, and tokens."""
    remaining = remaining_tokens(state, r)
    n = chunk_size(remaining, threshold, remaining)
    if (not limits.chunked and n > left) or not can_admit(state, limits, 0, 0, 0):
        return 0, 0
    return 0, min(n, left)


@inner
def start(
    transfers: Transfers, state: State, limits: Limits, r: int, hits_and_tokens: tuple[int, int]
) -> None:
    """`r` runs: in this step so many tokens of it are computed, beyond its hits or its load."""
    progress, moves = state.progress, transfers.moves
    hits, n = hits_and_tokens
    if moves.stage[r] != READY:
        start_prefill(state, limits, r, hits, n)
        return
    moves.stage[r] = LOCAL
    append_running(state, r)
    append_partial(state, r)
    progress.phase[r], progress.chunk[r] = PREFILLING, n
    progress.admitted_s[r] = state.tally.times[SCHEDULE_AT]
    if limits.identities:
        hash_full_blocks(state, limits, r, progress.computed[r] + n)


@inner
def start_load(transfers: Transfers, state: State, limits: Limits, r: int) -> bool:
    """Start to load the prompt of `r`, the first of the waiting queue, beyond its own hits.

    Returns False when its blocks, with what the prefills and loads under way still need, are not
    free.
    """
    moves, counts = transfers.moves, state.tally.counts
    prompt, hits, idle = state.requests.prompt_tokens[r], 0, 0
    if limits.identities:
        hits, idle = find_hits(state, limits, r, prompt)
    blocks = blocks_for(prompt, limits.block_size) - hits
    reserved = reserved_blocks(transfers, state, limits)
    if not can_admit(state, limits, (blocks + reserved) * limits.block_size, 0, idle):
        return False
    pop_waiting(state, limits)
    if limits.identities:
        claim_table(state, r, hits)
        grow_table(state, limits, r, prompt)
        counts[CACHED_TOKENS] += hits * limits.block_size
    else:
        counts[FREE_BLOCKS] -= blocks
    moves.stage[r], moves.hit_tokens[r] = LOADING, hits * limits.block_size
    moves.start_s[r] = state.tally.times[SCHEDULE_AT]
    state.progress.computed[r] = prompt
    enter_kv_queue(transfers, state, limits, r)
    transfers.started[transfers.counts[NUM_STARTED]] = r
    transfers.counts[NUM_STARTED] += 1
    size = bytes_after_prefill(
        transfers.rules, blocks * transfers.rules.block_bytes, moves.early_s[r]
    )
    time_load(transfers, r, size, moves.start_s[r])
    transfers.times[NEXT_END] = min(transfers.times[NEXT_END], moves.end_s[r])
    return True


@inner
def reserved_blocks(transfers: Transfers, state: State, limits: Limits) -> int:
    """Blocks that prefills and loads under way still need (_inflight_prefill_reserved_blocks)."""
    moves, progress, total = transfers.moves, state.progress, 0
    r = state.tally.counts[PART_HEAD]
    while r != NONE:
        known = progress.computed[r] + remaining_tokens(state, r)
        held = blocks_for(progress.computed[r] + progress.chunk[r], limits.block_size)
        if limits.identities:
            held = state.pool.holders.held[r]
        total += max(0, blocks_for(known, limits.block_size) - held)
        r = state.links.kind_next[r]
    r = transfers.counts[KV_HEAD]
    while r != NONE:
        if moves.stage[r] == LOST:
            total += blocks_for(state.requests.prompt_tokens[r], limits.block_size)
        r = moves.next[r]
    return total


@inner
def enter_kv_queue(transfers: Transfers, state: State, limits: Limits, r: int) -> None:
    """Put `r` into the queue of those that hold KV: at the end, or at its place by priority."""
    moves, counts = transfers.moves, transfers.counts
    counts[NUM_WITH_KV] += 1
    before = counts[KV_TAIL]
    if limits.priority:
        while before != NONE and is_before(state.requests.urgency, r, before):
            before = moves.prev[before]
    if before == counts[KV_TAIL]:
        append(counts, moves.prev, moves.next, KV_HEAD, r)
        return
    after = counts[KV_HEAD] if before == NONE else moves.next[before]
    moves.prev[r], moves.next[r], moves.prev[after] = before, after, r
    if before == NONE:
        counts[KV_HEAD] = r
    else:
        moves.next[before] = r
