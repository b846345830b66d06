"""What stands out in a figure of a front: seen candidates, the default, the chosen trial."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from dashboard.figures import style
from dashboard.figures.digits import digits
from dashboard.figures.front_axes import GROUND, on_axis
from dashboard.figures.front_trials import facts, hover
from dashboard.figures.front_view import Marks, Seen, View

_SHORT = {"engine default": "default", "recommended": "recommended"}


def add_seen(figure: go.Figure, seen: Sequence[Seen], view: View) -> None:
    """A dotted line from what was predicted of the replayed requests to what was seen."""
    for index, one in enumerate(seen):
        errors = [(a - b) / b if b else np.nan for a, b in (one.x, one.y)]
        texts = [
            f"{m.title} {digits(end[1])} {m.unit}, predicted {digits(end[0])} "
            f"({100 * error:+.0f} %)"
            for m, end, error in zip((view.x, view.y), (one.x, one.y), errors, strict=True)
        ]
        figure.add_scatter(
            x=list(one.x),
            y=list(one.y),
            mode="lines+markers+text",
            text=["", f"{_SHORT[one.label]}, {one.evidence}" if one.label in _SHORT else ""],
            textposition="bottom center",
            textfont={"size": 10},
            cliponaxis=False,
            name=f"predicted to {one.evidence}",
            legendgroup="seen",
            showlegend=index == 0,
            line={"dash": "dot", "color": style.GREY, "width": 2},
            marker={
                "symbol": ["circle-open", "square"],
                "size": [7, 11],
                "color": _role_color(one.label),
                "opacity": 1.0,
                "line": {"width": 1},
            },
            customdata=[[one.number], [one.number]],
            hovertemplate="<br>".join([f"<b>{one.label}</b>, the replayed requests", *texts])
            + "<extra></extra>",
        )


def _role_color(label: str) -> str:
    known = {"engine default": style.DEFAULT_COLOR, "recommended": style.RECOMMENDED_COLOR}
    return known.get(label, style.SKY)


def add_marks(figure: go.Figure, trials: pd.DataFrame, view: View, marks: Marks) -> None:
    """The default, the recommendation, the compared and the chosen trial, in this order."""
    looks: list[tuple[str, list[int | None], str, int, str]] = [
        ("engine default", [marks.default], "x", 12, style.DEFAULT_COLOR),
        ("recommended", [marks.recommended], "star", 16, style.RECOMMENDED_COLOR),
        ("compared", list(marks.compared), "square-open", 16, style.PURPLE),
        ("chosen", [marks.chosen], "circle-open", 24, style.CHOSEN_COLOR),
    ]
    for name, numbers, symbol, size, color in looks:
        rows = trials[trials["number"].isin([n for n in numbers if n is not None])]
        if not len(rows):
            continue
        chosen = name == "chosen"
        figure.add_scatter(
            x=view.x.of(rows),
            y=view.y.of(rows),
            mode="markers+text" if name == "compared" else "markers",
            name=name,
            text=[str(n) for n in rows["number"]],
            textposition="top center",
            textfont={"size": 11},
            showlegend=name in ("compared", "chosen"),
            marker={"symbol": symbol, "size": size, "color": color, "line": {"width": 3}},
            customdata=facts(rows),
            hovertemplate=hover(rows),
            cliponaxis=False,
            **(_bars(marks, view, rows) if chosen else {}),
        )
        figure.data[-1].update(
            selected={"marker": {"opacity": 1}}, unselected={"marker": {"opacity": 1}}
        )


def name_marks(figure: go.Figure, trials: pd.DataFrame, view: View, marks: Marks) -> None:
    """Words beside the default and the recommendation, on a ground that points do not hide."""
    same = marks.default == marks.recommended
    named = [("engine default, recommended" if same else "recommended", marks.recommended, 60)]
    named += [] if same else [("engine default", marks.default, 0)]
    if marks.chosen not in (marks.default, marks.recommended):
        named.append((f"trial {marks.chosen}", marks.chosen, -50))
    for text, number, aside in named:
        rows = trials[trials["number"] == number]
        if not len(rows):
            continue
        place = {
            axis: on_axis(figure, axis, float(measure.of(rows).iloc[0]))
            for axis, measure in (("x", view.x), ("y", view.y))
        }
        if np.isfinite(list(place.values())).all():
            figure.add_annotation(
                text=text,
                **place,
                ax=aside,
                ay=-50,
                arrowwidth=1,
                bgcolor=GROUND,
                font={"size": 11},
            )


def _bars(marks: Marks, view: View, rows: pd.DataFrame) -> dict[str, object]:
    """Error bars: 90 % intervals of the chosen trial."""
    bars: dict[str, object] = {}
    for axis, measure in (("error_x", view.x), ("error_y", view.y)):
        ends = marks.intervals.get(measure.column)
        value = float(measure.of(rows).iloc[0])
        if ends is not None and np.isfinite([value, *ends]).all():
            low, high = (end * measure.scale for end in ends)
            bars[axis] = {
                "type": "data",
                "symmetric": False,
                "array": [high - value],
                "arrayminus": [value - low],
                "color": style.CHOSEN_COLOR,
                "thickness": 1.5,
            }
    return bars
