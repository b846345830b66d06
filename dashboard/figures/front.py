"""The Pareto front of a search: two measures as axes, a third as colour and size."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from dashboard.figures import style
from dashboard.figures.front_axes import add_limits, set_axes, shown
from dashboard.figures.front_marks import add_marks, add_seen, name_marks
from dashboard.figures.front_trials import NAMES, rounded, shades_of, trace
from dashboard.figures.front_view import Marks, View, seen_of
from dashboard.figures.measures import Measure
from dashboard.tables import FRONT, MEETS, MISSES

_HEIGHT = 560
_MANY, _CELLS = 1000, (150, 64)
"""from so many trials on one mark is drawn in a cell of the axes as large as a mark, six pixels"""


def front_figure(trials: pd.DataFrame, pairs: pd.DataFrame, view: View, marks: Marks) -> go.Figure:
    """Trials as predicted, what was measured over them, SLO lines, and the marked trials.

    Parameters
    ----------
    trials
        As `tables.points` makes them.
    pairs
        As `tables.pairs` makes them; may be empty.
    view, marks
        What is drawn, and what stands out. The number of the trial is the first item of the
        `customdata` of every point.
    """
    figure, seen = go.Figure(), seen_of(pairs, view)
    set_axes(figure, shown(trials, seen, view, marks), view)
    apart, shades = _told_apart(trials, view, figure), shades_of(trials, view)
    for kind in (MISSES, MEETS, FRONT):
        rows = apart[apart["kind"] == kind]
        if len(rows):
            figure.add_trace(trace(rows, kind, view, shades))
    _add_boundary(figure, trials, view)
    add_seen(figure, seen, view)
    add_marks(figure, trials, view, marks)
    add_limits(figure, view)
    name_marks(figure, trials, view, marks)
    figure.update_layout(clickmode="event+select", dragmode="zoom", uirevision=_revision(view))
    return figure


def framed(figure: go.Figure, source: str) -> go.Figure:
    """A figure of `front_figure` with its source, and room for the colour bar below it."""
    style.finish(figure, source, height=_HEIGHT)
    return figure.update_layout(margin_b=150)


def num_drawn(figure: go.Figure) -> int:
    """Trials that a figure of `front_figure` draws; fewer than there are where marks would lie on
    each other (`_told_apart`)."""
    return sum(len(drawn.x) for drawn in figure.data if drawn.name in NAMES.values())


def _told_apart(trials: pd.DataFrame, view: View, figure: go.Figure) -> pd.DataFrame:
    """Of very many trials the front and, of each kind, one in each cell of `_CELLS`; without those
    that lie outside the axes."""
    if len(trials) <= _MANY:
        return trials
    cells = pd.DataFrame({"kind": trials["kind"]})
    inside = pd.Series(True, index=trials.index)
    for name, measure, count in (("x", view.x, _CELLS[0]), ("y", view.y, _CELLS[1])):
        axis, values = figure.layout[f"{name}axis"], measure.of(trials)
        if axis.range is None:  # nothing has such a figure
            return trials
        known = np.log10(values.where(values > 0)) if axis.type == "log" else values
        low, high = axis.range
        inside &= (known >= low) & (known <= high)
        cells[name] = np.floor((known - low) / (high - low) * count)
    return trials[inside & (~cells.duplicated() | (trials["kind"] == FRONT))]


def _revision(view: View) -> str:
    """Zoom is kept while this stays the same."""
    return f"{view.x.column} {view.y.column} {view.log_x} {view.log_y} {view.everything}"


def boundary(trials: pd.DataFrame, x: Measure, y: Measure) -> pd.DataFrame:
    """The trials that meet the SLOs and that no other one beats in both `x` and `y`, by `x`.

    Among all trials where none meets the SLOs. Empty where one of the two is neither better high
    nor low.
    """
    met = trials[trials["kind"] != MISSES].dropna(subset=[x.column, y.column])
    if x.less_is_better is None or y.less_is_better is None or x == y:
        return met.iloc[:0]
    signs = [1.0 if m.less_is_better else -1.0 for m in (x, y)]
    costs = np.column_stack([sign * m.of(met) for sign, m in zip(signs, (x, y), strict=True)])
    order = np.lexsort((costs[:, 1], costs[:, 0]))
    best = np.minimum.accumulate(np.append(np.inf, costs[order, 1]))[:-1]
    beaten_by_none: pd.DataFrame = met.iloc[order[costs[order, 1] < best]]
    return beaten_by_none.sort_values(x.column)


def _add_boundary(figure: go.Figure, trials: pd.DataFrame, view: View) -> None:
    """Steps along what can be had of both measures at once."""
    best = boundary(trials, view.x, view.y)
    if len(best) > 1:
        figure.add_scatter(
            x=rounded(view.x.of(best)),
            y=rounded(view.y.of(best)),
            mode="lines",
            line={"shape": "hv" if view.x.less_is_better else "vh", "width": 1.5},
            line_color=style.ORANGE,
            showlegend=False,
            hoverinfo="skip",
        )
