"""What steps leave behind: a row a step (the timeline), and who got what (the record).

Both are written only on request. The record costs O(running) per step, and is kept for the steps
that are scheduled in a window of simulated time.
"""

from __future__ import annotations

from profiler.compiled import inner
from profiler.latency.step_time import BatchShape
from tuner.simulator.blocks import computed_tokens
from tuner.simulator.encoder_release import encoding_of
from tuner.simulator.state import (
    DECODING,
    ENCODES,
    FREE_BLOCKS,
    HOLDS,
    NEXT,
    NONE,
    NUM_ROWS,
    NUM_RUNNING,
    NUM_STACKED,
    NUM_STEPS,
    PREFILLING,
    RECORDING,
    RUN_HEAD,
    RUNS,
    SCHEDULE_AT,
    STACK_HEAD,
    VISIBLE,
    WAITS,
    Limits,
    State,
)
from tuner.simulator.transfer_arrays import KV_HEAD, Transfers
from tuner.simulator.transfers import ends_now


@inner
def in_window(state: State, limits: Limits) -> bool:
    """Whether the next schedule() call falls into the recorded window."""
    return limits.record_from_s <= state.tally.times[SCHEDULE_AT] < limits.record_until_s


@inner
def has_record_room(state: State, limits: Limits) -> bool:
    """Whether the next step fits timeline and record whatever happens in it."""
    counts = state.tally.counts
    if limits.timeline and counts[NUM_STEPS] == state.steps.end_s.size:
        return False
    if counts[RECORDING] == 0:
        return True
    most = 4 * counts[NUM_RUNNING] + counts[NUM_STACKED] + 2 * state.requests.visible_s.size
    return counts[NUM_ROWS] + most < state.record.step.size


@inner
def add_step(state: State, batch: BatchShape, start: float, end: float) -> None:
    """The row of the step that runs from `start` to `end`; call before its output is committed."""
    counts, steps = state.tally.counts, state.steps
    i = counts[NUM_STEPS]
    steps.schedule_s[i] = state.tally.times[SCHEDULE_AT]
    steps.start_s[i], steps.end_s[i] = start, end
    steps.prefill_tokens[i], steps.num_decodes[i] = batch.prefill_tokens, batch.num_decodes
    steps.decode_context[i] = batch.decode_context
    steps.num_running[i] = counts[NUM_RUNNING]
    steps.num_taken[i] = counts[NEXT] - counts[NUM_STACKED]
    steps.free[i] = counts[FREE_BLOCKS]


@inner
def add_row(state: State, r: int, tokens: int, before: int) -> None:
    """Append one row of the step being built."""
    counts, record = state.tally.counts, state.record
    i = counts[NUM_ROWS]
    record.step[i], record.request[i] = counts[NUM_STEPS], r
    record.tokens[i], record.before[i] = tokens, before
    record.free[i] = counts[FREE_BLOCKS]
    counts[NUM_ROWS] = i + 1


@inner
def record_part(state: State, r: int, tokens: int, before: int) -> None:
    """A row for what `r` got in the step being built, one more for what the encoder does for it."""
    add_row(state, r, tokens, before)
    encoding = encoding_of(state.vision, r)
    if encoding > 0:
        add_row(state, r, ENCODES, encoding)


@inner
def record_step(state: State) -> None:
    """A row for every request that got tokens, in the engine's order."""
    progress = state.progress
    r = state.tally.counts[RUN_HEAD]
    while r != NONE:
        if progress.phase[r] == PREFILLING and progress.chunk[r] > 0:
            record_part(state, r, progress.chunk[r], progress.computed[r])
        late = progress.phase[r] == DECODING and progress.last_token_s[r] >= 0.0
        if progress.phase[r] == DECODING and not (late and progress.chunk[r] == 0):
            add_row(state, r, 1, computed_tokens(state, r))
        r = state.links.order_next[r]


@inner
def record_queues(state: State, limits: Limits) -> None:
    """A row for every running, then for every waiting request, in the order of their queues."""
    counts, links = state.tally.counts, state.links
    r = counts[RUN_HEAD]
    while r != NONE:
        add_row(state, r, RUNS, 0)
        r = links.order_next[r]
    if limits.priority:
        for i in range(counts[NUM_STACKED]):
            add_row(state, state.tally.heap[i], WAITS, 0)
        return
    r = counts[STACK_HEAD]
    while r != NONE:
        add_row(state, r, WAITS, 0)
        r = links.order_next[r]
    for i in range(counts[NEXT], counts[VISIBLE]):
        add_row(state, i, WAITS, 0)


@inner
def record_with_kv(transfers: Transfers, state: State) -> None:
    """A row for every request that waits with KV blocks, in order of their queue; what has been
    reported with the step's output counts."""
    r = transfers.counts[KV_HEAD]
    while r != NONE:
        if not ends_now(transfers, state, r):
            add_row(state, r, HOLDS, 0)
        r = transfers.moves.next[r]
