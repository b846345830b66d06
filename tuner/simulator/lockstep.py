"""The decodes as aggregates: they move in lockstep, one token per step, so that a step costs the
same for one decode as for a thousand. Per-request work happens only on joining and leaving.
"""

from __future__ import annotations

import numpy as np

from profiler.compiled import inner
from tuner.simulator.lists import append, link_end, remove, unlink_end
from tuner.simulator.state import (
    CLOCK,
    DECODE_CONTEXT,
    DECODING,
    LAST_END,
    NUM_DECODES,
    Limits,
    State,
)


@inner
def join_lockstep(state: State, limits: Limits, r: int) -> None:
    """`r` decodes from the next step on; call after CLOCK has moved. Its outputs are current."""
    counts, progress, tally = state.tally.counts, state.progress, state.tally
    context = progress.computed[r]
    progress.phase[r] = DECODING
    progress.computed[r] = context - counts[CLOCK]
    progress.end_clock[r] = counts[CLOCK] + state.requests.max_output[r] - progress.outputs[r] - 1
    klass = state.requests.klass[r]
    progress.slow_at_join[r] = tally.slow[klass]
    tally.decodes[klass] += 1
    link_crossing(state, limits, r)
    counts[NUM_DECODES] += 1
    counts[DECODE_CONTEXT] += context
    link_end(state, r)


@inner
def leave_lockstep(state: State, limits: Limits, r: int) -> None:
    """Take the decode `r` out of the aggregates; its phase and `computed` are left to the caller.

    Its last token appeared with the last busy step, unless it was late already.
    """
    counts, progress, tally = state.tally.counts, state.progress, state.tally
    klass = state.requests.klass[r]
    if np.isnan(progress.last_token_s[r]):
        progress.num_slow[r] += tally.slow[klass] - progress.slow_at_join[r]
        progress.last_token_s[r] = tally.times[LAST_END]
    tally.decodes[klass] -= 1
    unlink_crossing(state, limits, r)
    counts[NUM_DECODES] -= 1
    counts[DECODE_CONTEXT] -= progress.computed[r] + counts[CLOCK]
    unlink_end(state, r)


@inner
def link_crossing(state: State, limits: Limits, r: int) -> None:
    """Note at which clocks the decode `r` needs a new block."""
    slot, pool = -state.progress.computed[r] % limits.block_size, state.pool
    state.tally.crossing[slot] += 1
    if limits.identities:
        append(pool.cross_ends, pool.holders.cross_prev, pool.holders.cross_next, 2 * slot, r)


@inner
def unlink_crossing(state: State, limits: Limits, r: int) -> None:
    """Forget at which clocks the decode `r` needs a new block."""
    slot, pool = -state.progress.computed[r] % limits.block_size, state.pool
    state.tally.crossing[slot] -= 1
    if limits.identities:
        remove(pool.cross_ends, pool.holders.cross_prev, pool.holders.cross_next, 2 * slot, r)
