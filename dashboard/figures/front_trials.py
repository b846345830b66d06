"""Trials as marks of a figure of a front."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from dashboard.figures import style
from dashboard.figures.front_view import View
from dashboard.figures.measures import CHANCE, GOODPUT, ITL, TTFT, Measure
from dashboard.tables import FRONT, MEETS, MISSES, SETTING, setting_columns
from tuner.search.pareto import LIKELY

NAMES = {MISSES: "misses an SLO", MEETS: "meets the SLOs", FRONT: "front"}
_SHAPES = {MISSES: "circle", MEETS: "circle", FRONT: "diamond"}
_SIZES = {MISSES: 5, MEETS: 7, FRONT: 10}
_LINES = {
    MEETS: {"width": 0.5, "color": style.GREY},
    FRONT: {"width": 1.5, "color": style.ORANGE},
}
_COLORS = {MISSES: style.GREY, MEETS: style.SKY, FRONT: style.ORANGE}
_SPAN = 0.5
"""marker sizes where the third measure is lowest and highest are so much smaller and larger"""
_BAR_AT = -0.22
"""top of the colour bar below the axes, as a share of their height; leaves room for the source"""
_MOST_HOVERED = 6
"""settings in the text under the pointer"""


def shades_of(trials: pd.DataFrame, view: View) -> tuple[float, float] | None:
    """Range of the third measure over what meets the SLOs; None where it says nothing."""
    if view.shade is None:
        return None
    values = view.shade.of(trials[trials["kind"] != MISSES]).dropna()
    return (float(values.min()), float(values.max())) if len(values) else None


def trace(
    rows: pd.DataFrame, kind: str, view: View, shades: tuple[float, float] | None
) -> go.Scatter:
    """The trials of one kind. Open marks: misses, or a chance to meet below `LIKELY`."""
    open_ = (rows["chance"] < LIKELY) | (kind == MISSES)
    shape = _SHAPES[kind]
    marker: dict[str, object] = {
        "symbol": f"{shape}-open"
        if open_.all()
        else np.where(open_, f"{shape}-open", shape).astype(object),
        "size": _SIZES[kind],
        "color": _COLORS[kind],
        "opacity": 0.45 if kind == MISSES else 0.9,
    }
    if shades is not None and view.shade is not None and kind != MISSES:
        values = view.shade.of(rows)
        marker |= _shaded(view.shade, values, shades, size=_SIZES[kind])
        marker |= {"showscale": kind == FRONT, "line": _LINES[kind]}
    return go.Scatter(
        x=rounded(view.x.of(rows)),
        y=rounded(view.y.of(rows)),
        mode="markers",
        name=NAMES[kind],
        marker=marker,
        selected={"marker": {"opacity": 0.9}},
        unselected={"marker": {"opacity": marker["opacity"]}},
        customdata=facts(rows),
        hovertemplate=hover(rows),
    )


def _shaded(
    shade: Measure, values: pd.Series, ends: tuple[float, float], *, size: float
) -> dict[str, object]:
    """Colour and size by the third measure, whose range is `ends`."""
    low, high = ends
    known = values.fillna(low)
    share = (known - low) / (high - low) if high > low else 0 * known + 0.5
    return {
        "color": rounded(known),
        "colorscale": "Cividis",
        "cmin": low,
        "cmax": high if high > low else low + 1,
        "size": (size * (1 - _SPAN + 2 * _SPAN * share)).round(1).tolist(),
        "colorbar": {
            "title": {"text": shade.label, "side": "top"},
            "orientation": "h",  # beside the axes it would take a third of a narrow screen
            "thickness": 10,
            "yanchor": "top",
            "y": _BAR_AT,
        },
    }


def facts(rows: pd.DataFrame) -> npt.NDArray[np.object_]:
    """Per point: number, ITL, TTFT, goodput, chance, then fleet or settings."""
    columns: list[npt.NDArray[np.object_]] = [rows["number"].to_numpy().astype(object)]
    columns += [rounded(m.of(rows)) for m in (ITL, TTFT, GOODPUT, CHANCE)]
    columns += [_plain(rows[name]) for name in _hovered(rows)]
    return np.column_stack(columns)


def _plain(values: pd.Series) -> npt.NDArray[np.object_]:
    known = values.astype(object)
    return known.where(known.notna(), None).to_numpy()


def _hovered(rows: pd.DataFrame) -> list[str]:
    return ["fleet"] if (rows["fleet"] != "").any() else setting_columns(rows)[:_MOST_HOVERED]


def hover(rows: pd.DataFrame) -> str:
    """Text under the pointer; `facts` fills it."""
    lines = ["<b>trial %{customdata[0]}</b>"]
    named = [ITL, TTFT, GOODPUT, *([CHANCE] if rows["chance"].notna().any() else [])]
    for place, measure in enumerate((ITL, TTFT, GOODPUT, CHANCE), start=1):
        if measure in named:
            lines.append(f"{measure.title} %{{customdata[{place}]}} {measure.unit}")
    for place, column in enumerate(_hovered(rows), start=5):
        lines.append(f"{column.removeprefix(SETTING)} %{{customdata[{place}]}}")
    return "<br>".join(lines) + "<extra></extra>"


def rounded(values: pd.Series) -> npt.NDArray[np.object_]:
    """Four significant digits, so that a figure of 5,000 points stays small; None for none."""
    known = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(known)
    sizes = np.abs(np.where(finite & (known != 0), known, 1.0))
    power = 10.0 ** np.maximum(0, 3 - np.floor(np.log10(sizes)))
    short = np.round(np.where(finite, known, 0.0) * power) / power
    known_or_none: npt.NDArray[np.object_] = short.astype(object)
    known_or_none[~finite] = None
    return known_or_none
