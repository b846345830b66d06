"""The decodes as aggregates: they move in lockstep, one token per step, so that a step costs the
same for one decode as for a thousand. Per-request work happens only on joining and leaving.
"""

from __future__ import annotations

import numpy as np

from profiler.compiled import compiled
from tuner.simulator.lists import link_end, unlink_end
from tuner.simulator.state import CLOCK, DECODE_CONTEXT, DECODING, LAST_END, NUM_DECODES, State


@compiled
def join_lockstep(state: State, r: int) -> None:
    """`r` decodes from the next step on; call after CLOCK has moved. Its outputs are current."""
    counts, progress, tally = state.tally.counts, state.progress, state.tally
    context = progress.computed[r]
    progress.phase[r] = DECODING
    progress.computed[r] = context - counts[CLOCK]
    progress.end_clock[r] = counts[CLOCK] + state.requests.max_output[r] - progress.outputs[r] - 1
    klass = state.requests.klass[r]
    progress.slow_at_join[r] = tally.slow[klass]
    tally.decodes[klass] += 1
    tally.crossing[-progress.computed[r] % tally.crossing.size] += 1
    counts[NUM_DECODES] += 1
    counts[DECODE_CONTEXT] += context
    link_end(state, r)


@compiled
def leave_lockstep(state: State, r: int) -> None:
    """Take the decode `r` out of the aggregates; its phase and `computed` are left to the caller.

    Its last token appeared with the last busy step, unless it was late already.
    """
    counts, progress, tally = state.tally.counts, state.progress, state.tally
    klass = state.requests.klass[r]
    if np.isnan(progress.last_token_s[r]):
        progress.num_slow[r] += tally.slow[klass] - progress.slow_at_join[r]
        progress.last_token_s[r] = tally.times[LAST_END]
    tally.decodes[klass] -= 1
    tally.crossing[-progress.computed[r] % tally.crossing.size] -= 1
    counts[NUM_DECODES] -= 1
    counts[DECODE_CONTEXT] -= progress.computed[r] + counts[CLOCK]
    unlink_end(state, r)
