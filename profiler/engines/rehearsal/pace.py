"""`Pace`: when each step of the rehearsed engine ends, and how late it really was.

The latency model gives the whole interval from one output to the next: device time, and the GPU
machine's own host time. This machine's host work (scheduling, output handling) goes on inside that
interval, and the pause is what remains of it. So a rehearsal does not feel this machine's speed as
long as its host work fits; where it does not, the step ends late, and that is counted.

A step starts when the one before should have ended, so that the overshoot of each sleep does not
add up. A late step moves everything after it, so that no step is made shorter to catch up.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LATE_S = 1e-3
"""a step that ends later than this, and than `LATE_SHARE` of its time, counts as late"""
LATE_SHARE = 0.1


class Pace:
    """The clock of a device that runs one step after the other. Times are seconds of `clock`."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._busy = False
        self._end_s = float("-inf")
        self._moved_s = 0.0

    def begin(self, interval_s: float) -> float:
        """Start a step that takes `interval_s`; return when it should end, for `finish`."""
        start_s = self._end_s
        if not self._busy:
            start_s = max(start_s, self._clock() - self._moved_s)
        self._busy = True
        self._end_s = start_s + interval_s
        return self._end_s

    def idle(self) -> None:
        """The engine has nothing to run: the next step starts when it comes."""
        self._busy = False

    def finish(self, end_s: float, interval_s: float) -> float:
        """Wait for the end of a step; return how late it was, 0 unless it counts as late."""
        due_s = end_s + self._moved_s
        left_s = due_s - self._clock()
        if left_s > 0:
            self._sleep(left_s)
        late_s = self._clock() - due_s
        if late_s <= max(LATE_S, LATE_SHARE * interval_s):
            return 0.0
        self._moved_s += late_s
        return late_s
