"""Token gaps of a long run, kept by size instead of one by one.

The kernel logs about 20 gaps per request. Up to `MAX_LOGGED` of them are kept as they are; a longer
run is drained into bins of 1/4,096 of a factor of two (at most 0.024 % wide), each represented by
the mean of its gaps, so that memory does not grow with the traffic. What is counted against an ITL
limit is counted by the kernel, one by one.
"""

from __future__ import annotations

import numpy as np

from tuner.simulator.gaps import add_to_bins
from tuner.simulator.log_room import MAX_LOGGED, grow_logs, grow_steps
from tuner.simulator.state import NUM_GAPS, NUM_STEPS, Bins, FloatArray, IntArray, Log, State

_SHIFT = 52 - 12
_LOWEST = int(np.float64(2.0**-16).view(np.int64)) >> _SHIFT
_NUM_BINS = (int(np.float64(2.0**12).view(np.int64)) >> _SHIFT) - _LOWEST
"""from 15 us to 68 min; what is outside goes to the nearest bin"""


class GapStore:
    """Counts and sums by bin; empty until the first `drain`."""

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes
        self.bins: Bins | None = None

    def make_room(self, state: State) -> State:
        """The state with room in its logs: a larger log while it is small, else a drained one."""
        if 0 < state.steps.end_s.size == state.tally.counts[NUM_STEPS]:
            return grow_steps(state)
        logged = state.tally.counts[NUM_GAPS]
        if state.log.gap_s.size < MAX_LOGGED or 2 * logged < state.log.gap_s.size:
            return grow_logs(state)
        self.drain(state)
        return state

    def drain(self, state: State) -> Bins:
        """Move the logged gaps into the bins."""
        if self.bins is None:
            weight = np.zeros(_NUM_BINS * self.num_classes, dtype=np.int64)
            self.bins = Bins(np.zeros(_NUM_BINS), weight)
        log = logged_gaps(state)
        add_to_bins(log, log.gap_s.view(np.int64) >> _SHIFT, _LOWEST, self.bins)
        state.tally.counts[NUM_GAPS] = 0
        return self.bins

    def take(self, state: State) -> tuple[FloatArray, IntArray]:
        """All gaps: (G,) seconds and (G, C) how many requests of each class had them."""
        if self.bins is None:
            log = logged_gaps(state)
            return log.gap_s.copy(), log.weight.reshape(-1, self.num_classes).copy()
        bins = self.drain(state)
        weight = bins.weight.reshape(-1, self.num_classes)
        some = weight.any(axis=1)
        weight = weight[some]
        return bins.sum_s[some] / weight.sum(axis=1), weight


def logged_gaps(state: State) -> Log:
    """The part of the log that is written."""
    gaps, classes = int(state.tally.counts[NUM_GAPS]), state.tally.decodes.size
    return Log(state.log.gap_s[:gaps], state.log.weight[: gaps * classes])
