"""What a figure of a front shows: axes, marked trials, what was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from dashboard.figures.measures import GOODPUT, ITL, TTFT, Measure


@dataclass(frozen=True)
class View:
    """What is drawn how."""

    x: Measure = ITL
    y: Measure = TTFT
    shade: Measure | None = GOODPUT
    """third measure, as colour and size"""
    log_x: bool | None = None
    """None: by how far the values span"""
    log_y: bool | None = None
    everything: bool = False
    """axes over all trials, also those that miss the SLOs by far"""
    limits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """class -> limit, seconds (`Results.slo`)"""


@dataclass(frozen=True)
class Marks:
    """Trials with a part of their own, by number; None where there is no such trial."""

    chosen: int | None = None
    default: int | None = None
    recommended: int | None = None
    compared: Sequence[int] = ()
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """90 % of the chosen one's figures, in the columns' units"""


@dataclass(frozen=True)
class Seen:
    """A candidate, predicted and then measured, in shown values."""

    label: str
    evidence: str
    number: int
    x: tuple[float, float]
    y: tuple[float, float]


def seen_of(pairs: pd.DataFrame, view: View) -> list[Seen]:
    """The candidates that both axes have figures of."""
    found = []
    for _, row in pairs.iterrows():
        ends = [
            [_figure(row, source, measure) for source in ("predicted", "seen")]
            for measure in (view.x, view.y)
        ]
        if np.isfinite(ends).all():
            (x0, x1), (y0, y1) = ends
            words = str(row["label"]), str(row["evidence"])
            found.append(Seen(*words, int(row["number"]), (x0, x1), (y0, y1)))
    return found


def _figure(row: pd.Series, source: str, measure: Measure) -> float:
    if measure.column == "per_gpu_rps":
        return float(row[f"{source}.goodput_rps"] / row["num_gpus"])
    if measure.column == "num_gpus":
        return float(row["num_gpus"])
    return float(row.get(f"{source}.{measure.column}", np.nan)) * measure.scale
