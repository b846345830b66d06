"""The step record: who got what in each step. Written only on request; O(running) per step."""

from __future__ import annotations

from profiler.compiled import inner
from tuner.simulator.blocks import computed_tokens
from tuner.simulator.encoder_release import encoding_of
from tuner.simulator.state import (
    DECODING,
    ENCODES,
    FREE_BLOCKS,
    NEXT,
    NONE,
    NUM_ROWS,
    NUM_RUNNING,
    NUM_STACKED,
    NUM_STEPS,
    PREFILLING,
    RUN_HEAD,
    RUNS,
    STACK_HEAD,
    VISIBLE,
    WAITS,
    Limits,
    State,
)


@inner
def has_record_room(state: State, limits: Limits) -> bool:
    """Whether the next step fits the record whatever happens in it."""
    if not limits.recording:
        return True
    counts = state.tally.counts
    most = 4 * counts[NUM_RUNNING] + counts[NUM_STACKED] + 2 * state.requests.visible_s.size
    return counts[NUM_ROWS] + most < state.record.step.size


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
def record_step(state: State) -> None:
    """A row for every request that got tokens, in the engine's order."""
    progress = state.progress
    r = state.tally.counts[RUN_HEAD]
    while r != NONE:
        if progress.phase[r] == PREFILLING and progress.chunk[r] > 0:
            add_row(state, r, progress.chunk[r], progress.computed[r])
            encoding = encoding_of(state.vision, r)
            if encoding > 0:
                add_row(state, r, ENCODES, encoding)
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
