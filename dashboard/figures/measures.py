"""What an axis of the front can show: figures of a trial and its settings, with units."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dashboard.figures.digits import digits
from dashboard.tables import SETTING, coded, setting_columns
from profiler.knobs import KNOBS


@dataclass(frozen=True)
class Measure:
    """One column of `tables.points` as an axis."""

    column: str
    title: str
    unit: str = ""
    scale: float = 1.0
    """shown value = column x scale"""
    less_is_better: bool | None = None
    """None where it is neither"""

    @property
    def label(self) -> str:
        return f"{self.title}, {self.unit}" if self.unit else self.title

    def of(self, frame: pd.DataFrame) -> pd.Series:
        """The shown values of `frame`; NaN where there is none."""
        return frame[self.column].astype(np.float64) * self.scale

    def words(self, value: float | None) -> str:
        """A value of the column, with its unit: 1,234 ms."""
        if value is None or not math.isfinite(value):
            return "without end" if self.column == "ttft_p99_s" else "none"
        return f"{digits(value, self.scale)} {self.unit}".strip()


TTFT = Measure("ttft_p99_s", "TTFT p99", "ms", 1e3, less_is_better=True)
ITL = Measure("itl_p99_s", "ITL p99", "ms", 1e3, less_is_better=True)
GOODPUT = Measure("goodput_rps", "goodput", "requests/s", less_is_better=False)
PER_GPU = Measure("per_gpu_rps", "goodput per GPU", "requests/s", less_is_better=False)
GPUS = Measure("num_gpus", "GPUs", "", less_is_better=True)
CHANCE = Measure("chance", "chance to meet the SLOs", "%", 100.0, less_is_better=False)
FIGURES = (ITL, TTFT, GOODPUT, PER_GPU, GPUS, CHANCE)


def measures_of(frame: pd.DataFrame) -> list[Measure]:
    """The axes that the trials of `frame` (`tables.points`) have values for: the figures, then the
    settings that are numbers."""
    found = [m for m in FIGURES if frame[m.column].notna().any()]
    for column in setting_columns(frame):
        if coded(frame[column])[1] is None:
            found.append(_of_setting(column))
    return found


def _of_setting(column: str) -> Measure:
    name = column.removeprefix(SETTING)
    knob = KNOBS.get(name.rpartition(".")[2])
    return Measure(column, name, knob.unit if knob is not None else "")
