"""Axes of a figure of a front: range, scale, SLO lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from dashboard.figures import style
from dashboard.figures.digits import is_wide
from dashboard.figures.front_view import Marks, Seen, View
from dashboard.figures.measures import Measure
from dashboard.tables import MISSES

_WIDE = 8.0
"""latencies that span more than so many times get a logarithmic axis: a front is a curve of
factors"""
_MARGIN = 0.06
"""of the range that is left around what is shown"""
GROUND = "rgba(140, 140, 140, 0.3)"
"""under words, on light and on dark ground"""
_BEYOND = 4.0
"""a limit so many times above everything else is left out of the range"""


def shown(
    trials: pd.DataFrame, seen: Sequence[Seen], view: View, marks: Marks
) -> tuple[pd.Series, pd.Series]:
    """Values that the two axes must hold: of what meets the SLOs and what is marked, or all."""
    marked = [marks.chosen, marks.default, marks.recommended, *marks.compared]
    kept = (trials["kind"] != MISSES) | trials["number"].isin([n for n in marked if n is not None])
    rows = trials if view.everything or not kept.any() else trials[kept]
    ends = (np.array([one.x for one in seen]), np.array([one.y for one in seen]))
    found = []
    for measure, more in zip((view.x, view.y), ends, strict=True):
        values = np.append(measure.of(rows).to_numpy(), more.ravel())
        values = np.append(values, _limits(measure, view, values))
        found.append(pd.Series(values[np.isfinite(values)]))
    return found[0], found[1]


def _limits(
    measure: Measure, view: View, values: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The SLOs of a measure that are near enough to be shown."""
    limits = np.array([limit for _, limit in slo_lines(measure, view.limits)])
    return limits[limits <= _BEYOND * np.nanmax(values, initial=0.0)]


def slo_lines(
    measure: Measure, limits: Mapping[str, Mapping[str, float]]
) -> list[tuple[str, float]]:
    """Text and shown value of each distinct limit of a measure; the class where there are some."""
    by_value: dict[float, list[str]] = {}
    for name, of_class in limits.items():
        if measure.column in of_class:
            by_value.setdefault(of_class[measure.column] * measure.scale, []).append(name)
    several = len(limits) > 1
    return [
        (f"SLO of {', '.join(names)}" if several else "SLO", value)
        for value, names in by_value.items()
    ]


def set_axes(figure: go.Figure, shown: tuple[pd.Series, pd.Series], view: View) -> None:
    """Titles, scale and range of both axes."""
    wanted = ((view.x, view.log_x), (view.y, view.log_y))
    for axis, (measure, log), values in zip(("xaxis", "yaxis"), wanted, shown, strict=True):
        log = is_wide(values, _WIDE) if log is None else log and bool((values > 0).any())
        layout: dict[str, object] = {
            "title": {"text": measure.label},
            "type": "log" if log else "linear",
        }
        if len(values):
            layout["range"] = _range(values, log=log)
        if log:
            layout |= {"dtick": "D2", "minorloglabels": "complete", "exponentformat": "none"}
        figure.update_layout({axis: layout})


def _range(values: pd.Series, *, log: bool) -> list[float]:
    ends = np.log10(values[values > 0]) if log else values
    low, high = float(ends.min()), float(ends.max())
    room = _MARGIN * (high - low) or 0.1 * (1.0 if log else abs(high) or 1.0)
    return [low - room, high + room]


def add_limits(figure: go.Figure, view: View) -> None:
    """Dashed lines at the SLOs, with words at their ends."""
    line = {"dash": "dash", "color": style.SLO_COLOR, "width": 1.5}
    for axis, other, measure in (("x", "y", view.x), ("y", "x", view.y)):
        for text, value in slo_lines(measure, view.limits):
            across = {f"{other}ref": "paper", f"{other}0": 0, f"{other}1": 1}
            figure.add_shape(
                type="line", line=line, **across, **{f"{axis}0": value, f"{axis}1": value}
            )
            figure.add_annotation(
                text=text,
                showarrow=False,
                yanchor="top" if axis == "x" else "bottom",  # inside: the legend is above
                xanchor="left" if axis == "x" else "right",
                bgcolor=GROUND,
                font={"size": 11},
                **{axis: on_axis(figure, axis, value), f"{other}ref": "paper", other: 1},
            )


def on_axis(figure: go.Figure, axis: str, value: float) -> float:
    """Where an annotation goes: those of logarithmic axes take the exponent."""
    if figure.layout[f"{axis}axis"].type == "log" and value > 0:
        return float(np.log10(value))
    return value
