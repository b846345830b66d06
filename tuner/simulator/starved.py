"""The running pass request by request, for settings that can leave a decode without its token.

That happens when max_num_scheduled_tokens is below the number of running requests, or when the
adaptive threshold divides a larger budget than the step may use. It costs O(running) per step and
is exact; `scheduler.schedule_running` is the aggregated form for every other setting.
"""

from __future__ import annotations

import numpy as np

from profiler.compiled import compiled
from tuner.simulator.gaps import log_own_gap
from tuner.simulator.lists import link_end, unlink_end
from tuner.simulator.scheduler import (
    blocks_wanted,
    chunk_size,
    preempt_last,
    remaining_tokens,
)
from tuner.simulator.state import (
    CLOCK,
    DECODE_CONTEXT,
    DECODING,
    FREE_BLOCKS,
    LAST_END,
    LATE_CONTEXT,
    NONE,
    NUM_LATE,
    PREFILLING,
    RUN_HEAD,
    RUN_TAIL,
    Limits,
    State,
)


@compiled
def wanted_tokens(state: State, r: int, threshold: int, left: int) -> int:
    """Tokens the running request `r` gets when `left` of the budget remain."""
    phase = state.progress.phase[r]
    if phase == DECODING:
        return min(1, left)
    if phase == PREFILLING:
        return chunk_size(remaining_tokens(state, r), threshold, left)
    return 0


@compiled
def schedule_each(state: State, limits: Limits, threshold: int) -> tuple[int, int]:
    """The running pass in list order; decodes beyond the budget are late.

    Returns (budget left, number preempted). `Progress.chunk` also says 1 or 0 for decodes.
    """
    counts, chunk = state.tally.counts, state.progress.chunk
    left, preempted = limits.token_budget, 0
    r = counts[RUN_HEAD]
    while r != NONE:
        n = wanted_tokens(state, r, threshold, left)
        chunk[r] = n
        need = blocks_wanted(state, limits, r) if n > 0 else 0
        while need > counts[FREE_BLOCKS] and counts[RUN_TAIL] != r:
            preempt_last(state, limits)
            preempted += 1
        if need > counts[FREE_BLOCKS]:
            preempt_last(state, limits)
            return left, preempted + 1
        counts[FREE_BLOCKS] -= need
        left -= n
        if n == 0 and state.progress.phase[r] == DECODING:
            delay_decode(state, r)
        r = state.links.order_next[r]
    return left, preempted


@compiled
def delay_decode(state: State, r: int) -> None:
    """`r` gets no token in this step: everything of it moves by one step."""
    counts, progress, tally = state.tally.counts, state.progress, state.tally
    klass, size = state.requests.klass[r], tally.crossing.size
    if np.isnan(progress.last_token_s[r]):
        progress.num_slow[r] += tally.slow[klass] - progress.slow_at_join[r]
        progress.last_token_s[r] = tally.times[LAST_END]
    unlink_end(state, r)
    tally.crossing[-progress.computed[r] % size] -= 1
    progress.computed[r] -= 1
    progress.end_clock[r] += 1
    tally.crossing[-progress.computed[r] % size] += 1
    link_end(state, r)
    counts[DECODE_CONTEXT] -= 1
    counts[NUM_LATE] += 1
    counts[LATE_CONTEXT] += progress.computed[r] + counts[CLOCK]
    tally.late[klass] += 1


@compiled
def exclude_returning(state: State) -> None:
    """A late decode that gets its token has a gap of its own, not the pooled one."""
    progress, tally = state.progress, state.tally
    r = tally.counts[RUN_HEAD]
    while r != NONE:
        late = progress.phase[r] == DECODING and not np.isnan(progress.last_token_s[r])
        if late and progress.chunk[r] == 1:
            tally.late[state.requests.klass[r]] += 1
        r = state.links.order_next[r]


@compiled
def settle_returning(state: State, end: float) -> None:
    """Log the own gap of every late decode that got its token at `end`, and forget the lateness."""
    progress, tally = state.progress, state.tally
    r = tally.counts[RUN_HEAD]
    while r != NONE:
        late = progress.phase[r] == DECODING and not np.isnan(progress.last_token_s[r])
        if late and progress.chunk[r] == 1:
            log_own_gap(state, r, end)
            progress.slow_at_join[r] = tally.slow[state.requests.klass[r]]
        r = state.links.order_next[r]
    tally.counts[NUM_LATE] = 0
    tally.counts[LATE_CONTEXT] = 0
    tally.late[:] = 0
