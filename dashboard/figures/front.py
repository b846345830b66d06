"""The Pareto front of a search: two measures as axes, a third as colour and size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from dashboard.figures import style
from dashboard.figures.measures import CHANCE, GOODPUT, ITL, TTFT, Measure, is_wide
from dashboard.tables import FRONT, MEETS, MISSES, SETTING, setting_columns
from tuner.search.pareto import LIKELY

_NAMES = {MISSES: "misses an SLO", MEETS: "meets the SLOs", FRONT: "front"}
_SHAPES = {MISSES: "circle", MEETS: "circle", FRONT: "diamond"}
_SIZES = {MISSES: 5, MEETS: 7, FRONT: 10}
_LINES = {
    MEETS: {"width": 0.5, "color": style.GREY},
    FRONT: {"width": 1.5, "color": style.ORANGE},
}
_COLORS = {MISSES: style.GREY, MEETS: style.SKY, FRONT: style.ORANGE}
_SPAN = 0.5
"""marker sizes where the third measure is lowest and highest are so much smaller and larger"""
_SHORT = {"engine default": "default", "recommended": "recommended"}
_WIDE = 8.0
"""latencies that span more than so many times get a logarithmic axis: a front is a curve of
factors"""
_MARGIN = 0.06
"""of the range that is left around what is shown"""
_GROUND = "rgba(140, 140, 140, 0.3)"
"""under words, on light and on dark ground"""
_MANY, _CELLS = 1000, (240, 100)
"""from so many trials on one mark is drawn in a cell of the axes of about four pixels"""
_BEYOND = 4.0
"""a limit so many times above everything else is left out of the range"""
_MOST_HOVERED = 6
"""settings in the text under the pointer"""


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
    figure, seen = go.Figure(), _seen(pairs, view)
    _set_axes(figure, _shown(trials, seen, view, marks), view)
    apart, shades = _told_apart(trials, view, figure), _shades(trials, view)
    for kind in (MISSES, MEETS, FRONT):
        rows = apart[apart["kind"] == kind]
        if len(rows):
            figure.add_trace(_trace(rows, kind, view, shades))
    _add_boundary(figure, trials, view)
    _add_seen(figure, seen, view)
    _add_marks(figure, trials, view, marks)
    _add_limits(figure, view)
    _name_marks(figure, trials, view, marks)
    figure.update_layout(clickmode="event+select", dragmode="zoom", uirevision=_revision(view))
    return figure


def num_drawn(figure: go.Figure) -> int:
    """Trials that a figure of `front_figure` draws; fewer than there are where marks would lie on
    each other (`_told_apart`)."""
    return sum(len(trace.x) for trace in figure.data if trace.name in _NAMES.values())


def _told_apart(trials: pd.DataFrame, view: View, figure: go.Figure) -> pd.DataFrame:
    """Of very many trials the front and, of each kind, one in each cell of `_CELLS`; without those
    that lie outside the axes."""
    if len(trials) <= _MANY:
        return trials
    cells = pd.DataFrame({"kind": trials["kind"]})
    inside = pd.Series(True, index=trials.index)
    for name, measure, count in (("x", view.x, _CELLS[0]), ("y", view.y, _CELLS[1])):
        axis, values = figure.layout[f"{name}axis"], measure.of(trials)
        known = np.log10(values.where(values > 0)) if axis.type == "log" else values
        low, high = axis.range
        inside &= (known >= low) & (known <= high)
        cells[name] = np.floor((known - low) / (high - low) * count)
    return trials[inside & (~cells.duplicated() | (trials["kind"] == FRONT))]


def _revision(view: View) -> str:
    """Zoom is kept while this stays the same."""
    return f"{view.x.column} {view.y.column} {view.log_x} {view.log_y} {view.everything}"


def _shades(trials: pd.DataFrame, view: View) -> tuple[float, float] | None:
    """Range of the third measure over what meets the SLOs; None where it says nothing."""
    if view.shade is None:
        return None
    values = view.shade.of(trials[trials["kind"] != MISSES]).dropna()
    return (float(values.min()), float(values.max())) if len(values) else None


def _trace(
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
        x=_round(view.x.of(rows)),
        y=_round(view.y.of(rows)),
        mode="markers",
        name=_NAMES[kind],
        marker=marker,
        selected={"marker": {"opacity": 0.9}},
        unselected={"marker": {"opacity": marker["opacity"]}},
        customdata=_facts(rows),
        hovertemplate=_hover(rows),
    )


def _shaded(
    shade: Measure, values: pd.Series, ends: tuple[float, float], *, size: float
) -> dict[str, object]:
    """Colour and size by the third measure, whose range is `ends`."""
    low, high = ends
    known = values.fillna(low)
    share = (known - low) / (high - low) if high > low else 0 * known + 0.5
    return {
        "color": _round(known),
        "colorscale": "Cividis",
        "cmin": low,
        "cmax": high if high > low else low + 1,
        "size": (size * (1 - _SPAN + 2 * _SPAN * share)).round(1).tolist(),
        "colorbar": {"title": {"text": shade.label, "side": "right"}, "thickness": 10},
    }


def _facts(rows: pd.DataFrame) -> npt.NDArray[np.object_]:
    """Per point: number, ITL, TTFT, goodput, chance, then fleet or settings."""
    columns: list[npt.NDArray[np.object_]] = [rows["number"].to_numpy().astype(object)]
    columns += [_round(m.of(rows)) for m in (ITL, TTFT, GOODPUT, CHANCE)]
    columns += [_plain(rows[name]) for name in _hovered(rows)]
    return np.column_stack(columns)


def _plain(values: pd.Series) -> npt.NDArray[np.object_]:
    known = values.astype(object)
    return known.where(known.notna(), None).to_numpy()


def _hovered(rows: pd.DataFrame) -> list[str]:
    return ["fleet"] if (rows["fleet"] != "").any() else setting_columns(rows)[:_MOST_HOVERED]


def _hover(rows: pd.DataFrame) -> str:
    """Text under the pointer; `_facts` fills it."""
    lines = ["<b>trial %{customdata[0]}</b>"]
    named = [ITL, TTFT, GOODPUT, *([CHANCE] if rows["chance"].notna().any() else [])]
    for place, measure in enumerate((ITL, TTFT, GOODPUT, CHANCE), start=1):
        if measure in named:
            lines.append(f"{measure.title} %{{customdata[{place}]}} {measure.unit}")
    for place, column in enumerate(_hovered(rows), start=5):
        lines.append(f"{column.removeprefix(SETTING)} %{{customdata[{place}]}}")
    return "<br>".join(lines) + "<extra></extra>"


def _round(values: pd.Series) -> npt.NDArray[np.object_]:
    """Four significant digits, so that a figure of 5,000 points stays small; None for none."""
    known = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(known)
    sizes = np.abs(np.where(finite & (known != 0), known, 1.0))
    power = 10.0 ** np.maximum(0, 3 - np.floor(np.log10(sizes)))
    shown = np.round(np.where(finite, known, 0.0) * power) / power
    known_or_none: npt.NDArray[np.object_] = shown.astype(object)
    known_or_none[~finite] = None
    return known_or_none


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
            x=_round(view.x.of(best)),
            y=_round(view.y.of(best)),
            mode="lines",
            line={"shape": "hv" if view.x.less_is_better else "vh", "width": 1.5},
            line_color=style.ORANGE,
            showlegend=False,
            hoverinfo="skip",
        )


@dataclass(frozen=True)
class _Seen:
    """A candidate, predicted and then measured, in shown values."""

    label: str
    evidence: str
    number: int
    x: tuple[float, float]
    y: tuple[float, float]


def _seen(pairs: pd.DataFrame, view: View) -> list[_Seen]:
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
            found.append(_Seen(*words, int(row["number"]), (x0, x1), (y0, y1)))
    return found


def _figure(row: pd.Series, source: str, measure: Measure) -> float:
    if measure.column == "per_gpu_rps":
        return float(row[f"{source}.goodput_rps"] / row["num_gpus"])
    if measure.column == "num_gpus":
        return float(row["num_gpus"])
    return float(row.get(f"{source}.{measure.column}", np.nan)) * measure.scale


def _add_seen(figure: go.Figure, seen: Sequence[_Seen], view: View) -> None:
    """A dotted line from what was predicted of the replayed requests to what was seen."""
    for index, one in enumerate(seen):
        errors = [(a - b) / b if b else np.nan for a, b in (one.x, one.y)]
        texts = [
            f"{m.title} {end[1]:,.4g} {m.unit}, predicted {end[0]:,.4g} ({error:+.0%})"
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


def _add_marks(figure: go.Figure, trials: pd.DataFrame, view: View, marks: Marks) -> None:
    """The default, the recommendation, the compared and the chosen trial, in this order."""
    looks: list[tuple[str, list[int | None], str, int, str]] = [
        ("engine default", [marks.default], "x", 12, style.DEFAULT_COLOR),
        ("recommended", [marks.recommended], "star", 16, style.RECOMMENDED_COLOR),
        ("compared", list(marks.compared), "square-open", 16, style.PURPLE),
        ("chosen", [marks.chosen], "circle-open", 22, style.CHOSEN_COLOR),
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
            marker={"symbol": symbol, "size": size, "color": color, "line": {"width": 2}},
            customdata=_facts(rows),
            hovertemplate=_hover(rows),
            cliponaxis=False,
            **(_bars(marks, view, rows) if chosen else {}),
        )
        figure.data[-1].update(
            selected={"marker": {"opacity": 1}}, unselected={"marker": {"opacity": 1}}
        )


def _name_marks(figure: go.Figure, trials: pd.DataFrame, view: View, marks: Marks) -> None:
    """Words beside the default and the recommendation, on a ground that points do not hide."""
    same = marks.default == marks.recommended
    named = [("engine default, recommended" if same else "recommended", marks.recommended, 60)]
    named += [] if same else [("engine default", marks.default, 0)]
    for text, number, aside in named:
        rows = trials[trials["number"] == number]
        if not len(rows):
            continue
        place = {
            axis: _on(figure, axis, float(measure.of(rows).iloc[0]))
            for axis, measure in (("x", view.x), ("y", view.y))
        }
        if np.isfinite(list(place.values())).all():
            figure.add_annotation(
                text=text,
                **place,
                ax=aside,
                ay=-50,
                arrowwidth=1,
                bgcolor=_GROUND,
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


def _shown(
    trials: pd.DataFrame, seen: Sequence[_Seen], view: View, marks: Marks
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


def _set_axes(figure: go.Figure, shown: tuple[pd.Series, pd.Series], view: View) -> None:
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


def _add_limits(figure: go.Figure, view: View) -> None:
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
                bgcolor=_GROUND,
                font={"size": 11},
                **{axis: _on(figure, axis, value), f"{other}ref": "paper", other: 1},
            )


def _on(figure: go.Figure, axis: str, value: float) -> float:
    """Where an annotation goes: those of logarithmic axes take the exponent."""
    if figure.layout[f"{axis}axis"].type == "log" and value > 0:
        return float(np.log10(value))
    return value
