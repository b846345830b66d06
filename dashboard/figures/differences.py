"""What each difference to the engine default does to the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dashboard.figures import style
from dashboard.figures.digits import signed
from dashboard.figures.measures import GOODPUT, ITL, TTFT, Measure

MEASURES = (ITL, TTFT, GOODPUT)
_ROW_PX, _HEAD_PX = 22, 66
"""height of a line of a setting, and of what is around the lines of one figure"""


def differences_figure(found: Mapping[str, Any]) -> go.Figure:
    """Per figure, change by each difference alone: put on the default, and kept on the chosen one.

    Parameters
    ----------
    found
        As `derive.differences` makes it. A difference whose change cannot be simulated has no bar.
    """
    rows = _drawn(found)
    figure = make_subplots(rows=len(MEASURES), cols=1, subplot_titles=[m.label for m in MEASURES])
    figure.update_annotations(x=0, xanchor="left", font_size=13)
    for place, measure in enumerate(MEASURES, start=1):
        for name, color, pattern, low, high in _KINDS:
            changes = [change(row, found, measure, (low, high)) for row in rows]
            figure.add_bar(
                x=changes,
                y=[_wrapped(row["name"]) for row in rows],
                orientation="h",
                name=name,
                legendgroup=name,
                showlegend=place == 1,
                marker={"color": color, "pattern": {"shape": pattern}},
                text=["" if c is None else signed(c) for c in changes],
                textposition="outside",
                cliponaxis=False,
                hovertemplate=f"%{{y}}, {name}<br>%{{x:+,.4~r}} {measure.unit}<extra></extra>",
                row=place,
                col=1,
            )
    for place, measure in enumerate(MEASURES, start=1):
        figure.update_xaxes(range=_range(rows, found, measure), row=place, col=1)
    figure.update_xaxes(zeroline=True, zerolinewidth=2, automargin=True)
    figure.update_yaxes(autorange="reversed", automargin=True)
    figure.update_layout(bargap=0.3)
    return figure


_KINDS = (
    ("put alone on the default", style.ORANGE, "/", "default", "alone"),
    ("the last one added to this point", style.BLUE, "", "without", "chosen"),
)
"""name, colour, pattern, figures before and after the difference"""


def _range(
    rows: Sequence[Mapping[str, Any]], found: Mapping[str, Any], measure: Measure
) -> list[float]:
    """From the lowest to the highest bar, with room for the words at their ends."""
    ends = [change(row, found, measure, pair[-2:]) for row in rows for pair in _KINDS]
    known = [0.0, *(end for end in ends if end is not None)]
    room = 0.15 * (max(known) - min(known)) or 1.0
    return [min(known) - room, max(known) + room]


def has_bars(found: Mapping[str, Any]) -> bool:
    """Whether there is anything to draw."""
    return bool(_drawn(found))


def _drawn(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [row for row in found["rows"] if row["without"] or row["alone"]]


def height(found: Mapping[str, Any]) -> int:
    """Pixels that the figure needs."""
    lines = len(_drawn(found))
    return len(MEASURES) * (_HEAD_PX + 2 * _ROW_PX * lines) + 100


def change(
    row: Mapping[str, Any], found: Mapping[str, Any], measure: Measure, ends: Sequence[str]
) -> float | None:
    """By how much a figure moves between two of default, chosen, without and alone; shown units."""
    known = {"default": found["default"], "chosen": found["chosen"], **_simulated(row)}
    low, high = ((known[end] or {}).get(measure.column) for end in ends)
    return None if low is None or high is None else float(high - low) * measure.scale


def _simulated(row: Mapping[str, Any]) -> dict[str, Any]:
    return {end: row[end] for end in ("without", "alone")}


def _wrapped(name: str) -> str:
    """A long name on two lines, for narrow screens."""
    if len(name) <= 18:
        return name
    middle = min(
        (i for i, c in enumerate(name) if c in "._"), key=lambda i: abs(i - len(name) // 2)
    )
    return f"{name[: middle + 1]}<br>{name[middle + 1 :]}"
