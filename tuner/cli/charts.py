"""Charts drawn with characters, as wide as the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import plotext
from rich.console import Console
from rich.text import Text

Values = Sequence[float] | npt.NDArray[np.float64]

MARKERS = "·ox+*#"
WIDE = 20.0
"""range of the data (largest over least) from which an axis is logarithmic"""
_HEIGHT = 12
_NARROWEST, _WIDEST = 40, 110


@dataclass(frozen=True)
class Series:
    """Points that belong together."""

    marker: str
    label: str
    x: Values
    y: Values


def chart_size(console: Console, height: int = _HEIGHT) -> tuple[int, int]:
    """Columns and rows of a chart on this console."""
    return min(max(console.width, _NARROWEST), _WIDEST), height


def chart(
    title: str, series: Sequence[Series], size: tuple[int, int], *, log: Sequence[str] = ()
) -> Text:
    """The series in one frame, a legend below; `log` names the logarithmic axes ("x", "y")."""
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(*size)
    for one in series:
        if len(one.x):
            x, y = ([float(v) for v in values] for values in (one.x, one.y))
            figure.draw(figure.signal(x, y, marker=one.marker))
    for axis in log:
        figure.ruler(axis).scale("log")
    figure.title(title)
    legend = "  ".join(f"{one.marker} {one.label}" for one in series if one.label)
    return Text.from_ansi(figure.build().string()) + Text(f"\n {legend}\n" if legend else "\n")


def is_wide(values: Values) -> bool:
    """Whether the (positive) values span so much that a linear axis would hide most of them."""
    return len(values) > 0 and min(values) > 0 and max(values) > WIDE * min(values)
