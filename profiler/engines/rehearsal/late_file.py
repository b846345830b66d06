"""The file in which the worker says how late each step was: two 8-byte floats per step, the
modelled interval and the lateness, seconds."""

from __future__ import annotations

import os
from array import array
from pathlib import Path

import numpy as np

from profiler.outcomes import LateSteps

_NUMBERS = 2


def late_file(steps: Path) -> Path:
    """Beside the step file of the same engine."""
    return steps.with_name("late.f64")


class LateWriter:
    """Appends one record per step."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, interval_s: float, late_s: float) -> None:
        """Append a step."""
        os.write(self._fd, array("d", (interval_s, late_s)).tobytes())


class LateReader:
    """Reads a growing file from where it last stopped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def take(self) -> LateSteps:
        """The steps written since the last call."""
        numbers = np.empty(0)
        if self._path.exists():
            numbers = np.fromfile(self._path, dtype=np.float64, offset=self._offset)
        self._offset += numbers.nbytes
        interval_s, late_s = numbers.reshape(-1, _NUMBERS).T
        return LateSteps(
            num_steps=int(interval_s.size),
            num_late=int(np.count_nonzero(late_s)),
            late_s=float(late_s.sum()),
            modelled_s=float(interval_s.sum()),
        )
