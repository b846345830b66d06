"""One schedule() call of vLLM 0.32, one small function per rule.

Each function names the part of `vllm/v1/core/sched/scheduler.py` it mirrors. The requests that
decode move in lockstep, one token per step, and are kept as aggregates; only partial prefills,
admissions and preemptions are visited one by one. Two facts make that exact (first-come order, no
speculation, token budget at least the running requests; `starved.py` handles the rest):

* a decode behind a partial prefill in the running list always still fits the token budget, so the
  budget left for partial prefills is the budget less *all* decodes;
* victims are taken from the tail until everybody who remains fits, so the order in which the
  others allocate does not matter.
"""

from __future__ import annotations

from profiler.compiled import compiled
from tuner.simulator.blocks import blocks_for, can_admit, computed_tokens, free_blocks
from tuner.simulator.lists import (
    append_partial,
    append_running,
    push_waiting,
    remove_partial,
    remove_running,
)
from tuner.simulator.lockstep import leave_lockstep
from tuner.simulator.record import add_row
from tuner.simulator.state import (
    BLOCKED,
    CLOCK,
    DECODING,
    DONE,
    FINISHING,
    FREE_BLOCKS,
    NEXT,
    NONE,
    NUM_DECODES,
    NUM_PREEMPTIONS,
    NUM_RUNNING,
    NUM_STACKED,
    PART_HEAD,
    PREEMPTED,
    PREFILLING,
    RUN_TAIL,
    STACK_HEAD,
    VISIBLE,
    WAITING,
    Limits,
    State,
)


@compiled
def see_arrivals(state: State, now: float) -> None:
    """Requests that reached the scheduler by `now` enter the waiting queue (EngineCore input)."""
    counts, visible_s = state.tally.counts, state.requests.visible_s
    i = counts[VISIBLE]
    while i < visible_s.size and visible_s[i] <= now:
        i += 1
    counts[VISIBLE] = i


@compiled
def num_waiting(state: State) -> int:
    """Length of the waiting queue: preempted requests, then arrivals."""
    counts = state.tally.counts
    return counts[NUM_STACKED] + counts[VISIBLE] - counts[NEXT]


@compiled
def current_threshold(state: State, limits: Limits) -> int:
    """Long-prefill cap of this step, 0 for none: off for a lone request, adaptive floor."""
    present = state.tally.counts[NUM_RUNNING] + num_waiting(state)
    if limits.threshold == 0 or present <= 1:
        return 0
    if limits.adaptive:
        return max(limits.threshold, limits.adaptive_budget // present)
    return limits.threshold


@compiled
def chunk_size(remaining: int, threshold: int, left: int) -> int:
    """Tokens a prompt gets: what remains, capped by the threshold and by the budget left."""
    n = remaining
    if 0 < threshold < n:
        n = threshold
    return min(n, left)


@compiled
def remaining_tokens(state: State, r: int) -> int:
    """Known tokens (prompt, and outputs of a preempted request) that are not computed yet."""
    progress = state.progress
    return state.requests.prompt_tokens[r] + progress.outputs[r] - progress.computed[r]


@compiled
def extra_blocks(state: State, limits: Limits, r: int, n: int) -> int:
    """New blocks that `n` more tokens of the partial prefill `r` need."""
    computed = state.progress.computed[r]
    return blocks_for(computed + n, limits.block_size) - blocks_for(computed, limits.block_size)


@compiled
def schedule_running(state: State, limits: Limits, threshold: int) -> tuple[int, int]:
    """The running pass: a token for every decode, a chunk for every partial prefill.

    Returns (budget left, number preempted). Writes chunks and FREE_BLOCKS.
    """
    counts = state.tally.counts
    left = limits.token_budget - counts[NUM_DECODES]
    need = state.tally.crossing[counts[CLOCK] % limits.block_size]
    r = counts[PART_HEAD]
    while r != NONE:
        n = chunk_size(remaining_tokens(state, r), threshold, left)
        state.progress.chunk[r] = n
        left -= n
        need += extra_blocks(state, limits, r, n)
        r = state.links.kind_next[r]
    preempted = 0
    while need > counts[FREE_BLOCKS]:
        need -= blocks_wanted(state, limits, counts[RUN_TAIL])
        preempt_last(state, limits)
        preempted += 1
    counts[FREE_BLOCKS] -= need
    return left, preempted


@compiled
def blocks_wanted(state: State, limits: Limits, r: int) -> int:
    """New blocks that the running request `r` wants in this step."""
    phase = state.progress.phase[r]
    if phase == PREFILLING:
        return extra_blocks(state, limits, r, state.progress.chunk[r])
    if phase == DECODING:
        return 1 if computed_tokens(state, r) % limits.block_size == 0 else 0
    return 0


@compiled
def preempt_last(state: State, limits: Limits) -> None:
    """Preempt the last running request by recomputation (_preempt_request, first-come order).

    Its outputs are kept. A request whose last token is in flight is dropped instead of queued:
    that token finishes it before the queue is looked at again.
    """
    counts, progress = state.tally.counts, state.progress
    r = counts[RUN_TAIL]
    if limits.recording:
        add_row(state, r, PREEMPTED, 0)
    remove_running(state, r)
    free_blocks(state, limits, r)
    counts[NUM_PREEMPTIONS] += 1
    if progress.phase[r] == FINISHING:
        progress.phase[r] = DONE
        return
    if progress.phase[r] == DECODING:
        leave_lockstep(state, r)
        progress.outputs[r] = state.requests.max_output[r] - (
            progress.end_clock[r] - counts[CLOCK] + 1
        )
    else:
        remove_partial(state, r)
    progress.phase[r], progress.computed[r], progress.chunk[r] = WAITING, 0, 0
    push_waiting(state, r)


@compiled
def waiting_head(state: State) -> int:
    """First of the waiting queue, or NONE."""
    counts = state.tally.counts
    if counts[STACK_HEAD] != NONE:
        return counts[STACK_HEAD]
    return counts[NEXT] if counts[NEXT] < counts[VISIBLE] else NONE


@compiled
def pop_waiting(state: State) -> None:
    """Take the first request off the waiting queue."""
    counts = state.tally.counts
    r = counts[STACK_HEAD]
    if r != NONE:
        counts[STACK_HEAD] = state.links.order_next[r]
        counts[NUM_STACKED] -= 1
    else:
        counts[NEXT] += 1


@compiled
def admit_waiting(state: State, limits: Limits, threshold: int, left: int) -> None:
    """The waiting pass: admit from the head while slots, budget and blocks last.

    Strict head-of-line: the first request that does not fit ends the pass. Writes BLOCKED.
    """
    counts, progress = state.tally.counts, state.progress
    r = waiting_head(state)
    while r != NONE and left > 0 and counts[NUM_RUNNING] < limits.max_active:
        known = remaining_tokens(state, r)
        n = chunk_size(known, threshold, known)
        if not limits.chunked and n > left:
            break
        n = min(n, left)
        if not can_admit(state, limits, known, n):
            break
        pop_waiting(state)
        append_running(state, r)
        append_partial(state, r)
        progress.phase[r], progress.chunk[r] = PREFILLING, n
        counts[FREE_BLOCKS] -= blocks_for(n, limits.block_size)
        left -= n
        r = waiting_head(state)
    counts[BLOCKED] = 1 if r != NONE else 0
