"""The file in which the worker says how late each step was: two numbers per step, the modelled
interval and the lateness, seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from profiler.engines.record_file import RecordReader
from profiler.outcomes import LateSteps

_NUMBERS = 2


def late_file(steps: Path) -> Path:
    """Beside the step file of the same engine."""
    return steps.with_name("late.f64")


class LateReader:
    """Reads a growing file from where it last stopped."""

    def __init__(self, path: Path) -> None:
        self._records = RecordReader(path, _NUMBERS)

    def take(self) -> LateSteps:
        """The steps written since the last call."""
        interval_s, late_s = self._records.take().T
        return LateSteps(
            num_steps=int(interval_s.size),
            num_late=int(np.count_nonzero(late_s)),
            late_s=float(late_s.sum()),
            modelled_s=float(interval_s.sum()),
        )
