"""Token gaps: pooled ones of the decodes in lockstep, and own ones after a preemption."""

from __future__ import annotations

import numpy as np

from profiler.compiled import compiled, inner
from tuner.simulator.state import (
    LAST_END,
    NUM_DECODES,
    NUM_GAPS,
    NUM_LATE,
    NUM_RUNNING,
    NUM_STACKED,
    WORST_OWN,
    WORST_OWN_END,
    WORST_OWN_START,
    Bins,
    IntArray,
    Log,
    State,
    Tally,
)


@inner
def has_log_room(state: State) -> bool:
    """Whether the next step's gaps fit the log whatever happens in it."""
    counts = state.tally.counts
    most = counts[NUM_GAPS] + 1 + counts[NUM_RUNNING] + counts[NUM_STACKED]
    return most < state.log.gap_s.size


@inner
def log_pooled_gap(state: State, end: float) -> None:
    """Every decode of this step had its last token at the last busy step's end."""
    tally, log = state.tally, state.log
    counts = tally.counts
    if counts[NUM_DECODES] == counts[NUM_LATE]:
        return
    gap, i, classes = end - tally.times[LAST_END], counts[NUM_GAPS], tally.decodes.size
    log.gap_s[i] = gap
    for c in range(classes):
        log.weight[i * classes + c] = tally.decodes[c] - tally.late[c]
        if gap > tally.itl_limit_s[c]:
            tally.slow[c] += 1
    counts[NUM_GAPS] = i + 1


@inner
def log_own_gap(state: State, r: int, end: float) -> None:
    """`r` has a token at `end` after being preempted or late. Clears `last_token_s`.

    The longest such gap is remembered.
    """
    tally, log, progress = state.tally, state.log, state.progress
    gap, i, classes = end - progress.last_token_s[r], tally.counts[NUM_GAPS], tally.decodes.size
    klass = state.requests.klass[r]
    log.gap_s[i] = gap
    for c in range(classes):
        log.weight[i * classes + c] = 0
    log.weight[i * classes + klass] = 1
    if gap > tally.itl_limit_s[klass]:
        progress.num_slow[r] += 1
    keep_longest(tally, r, progress.last_token_s[r], end)
    progress.last_token_s[r] = np.nan
    tally.counts[NUM_GAPS] = i + 1


@inner
def keep_longest(tally: Tally, r: int, start: float, end: float) -> None:
    """Remember the gap of `r` from `start` to `end` when it is the longest so far."""
    times = tally.times
    if end - start > times[WORST_OWN_END] - times[WORST_OWN_START]:
        tally.counts[WORST_OWN] = r
        times[WORST_OWN_START], times[WORST_OWN_END] = start, end


@compiled
def add_to_bins(log: Log, bits: IntArray, lowest: int, bins: Bins) -> None:
    """Add logged gaps to `bins`; entry i falls into bin bits[i] - lowest, cut to the ends.

    Parameters
    ----------
    log
        The gaps to add, all of it.
    bits
        (G,) leading bits of each gap.
    """
    classes = log.weight.size // max(1, bits.size)
    for i in range(bits.size):
        place = min(max(bits[i] - lowest, 0), bins.sum_s.size - 1)
        for c in range(classes):
            weight = log.weight[i * classes + c]
            bins.weight[place * classes + c] += weight
            bins.sum_s[place] += weight * log.gap_s[i]
