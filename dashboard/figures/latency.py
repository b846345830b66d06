"""Distributions of TTFT and ITL, and queue, batch and KV use over time. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dashboard.derive.points import DEFAULT, RECOMMENDED
from dashboard.figures import style
from dashboard.figures.digits import digits, is_wide, log_ticks

Curves = Mapping[str, Mapping[str, Any]]
"""name of a line -> what `derive.latency` has of one class"""

METRICS = {"ttft": "TTFT", "itl": "ITL"}
LEAST_MS = 0.1
"""what a log axis begins with; gaps of 0 (tokens that appear together) are not on it"""
LONG_S = 900.0
"""from here on time is in minutes"""
OVER_TIME = {
    "waiting": "requests waiting",
    "running": "requests running",
    "tokens": "tokens per step",
    "kv": "KV blocks in use, %",
}


class Look(NamedTuple):
    """How a line looks; two differ in dash and mark, not in colour alone."""

    color: str
    dash: str
    symbol: str


_KNOWN = {
    DEFAULT: Look(style.DEFAULT_COLOR, "dash", "square"),
    RECOMMENDED: Look(style.RECOMMENDED_COLOR, "solid", "circle"),
    "predicted": Look(style.GREY, "dash", "square"),
    "measured": Look(style.BLUE, "solid", "circle"),
    "rehearsed": Look(style.BLUE, "solid", "circle"),
    "measured, at profile speed": Look(style.SKY, "dot", "diamond"),
}
_FIRST = Look(style.CHOSEN_COLOR, "solid", "diamond")
_OTHERS = (
    Look(style.ORANGE, "dot", "cross"),
    Look(style.SKY, "dashdot", "triangle-up"),
    Look(style.GREY, "longdash", "star"),
    Look(style.BLUE, "longdashdot", "x"),
)


def looks(names: Sequence[str]) -> dict[str, Look]:
    """One for each name, by what it means where it means something; the first is the chosen one."""
    others = iter(_OTHERS)
    first = {name: _KNOWN.get(name, _FIRST) for name in names[:1]}
    return first | {name: _KNOWN.get(name) or next(others) for name in names[1:]}


def cumulative_figure(
    metric: str, percents: Sequence[float], curves: Curves, limits: Mapping[str, float]
) -> go.Figure:
    """Share of all up to each value.

    Parameters
    ----------
    metric
        ttft or itl.
    percents
        Where the `curves` are known.
    limits
        SLO in words -> seconds.
    """
    figure = _lines(metric, curves, list(percents))
    figure.update_yaxes(title="% of all at most this long", range=[0, 101])
    return _with_limits(figure, limits, top=False)


def tail_figure(
    metric: str, percents: Sequence[float], curves: Curves, limits: Mapping[str, float]
) -> go.Figure:
    """Share of all that takes longer than each value, on a log axis; down to one sample.

    See `cumulative_figure`. The 1 % that an SLO on a p99 allows is marked.
    """
    left = [100.0 - p for p in percents]
    figure = _lines(metric, curves, left, tail=True)
    least = min((100.0 / max(1, one[f"num_{metric}"]) for one in curves.values()), default=1.0)
    figure.update_yaxes(title="% of all longer than this", **log_ticks([min(1.0, least), 100.0]))
    figure.add_hline(y=1.0, line_dash="dot", line_color=style.GREY)
    figure.add_annotation(
        x=1, xref="x domain", y=0.0, text="p99", xanchor="right", yanchor="bottom", showarrow=False
    )  # y is a power of ten
    return _with_limits(figure, limits, top=True)


def _lines(
    metric: str, curves: Curves, shares: Sequence[float], *, tail: bool = False
) -> go.Figure:
    figure, known, seen = go.Figure(), looks(list(curves)), []
    for name, one in curves.items():
        num = one[f"num_{metric}"]
        pairs = [
            (1e3 * value, share)
            for value, share in zip(one[f"{metric}_s"], shares, strict=True)
            if value is not None and (not tail or share >= 100.0 / max(1, num))
        ]
        seen += [x for x, _ in pairs]
        look = known[name]
        figure.add_scatter(
            x=[x for x, _ in pairs],
            y=[y for _, y in pairs],
            name=name,
            mode="lines",
            line={"color": look.color, "dash": look.dash, "shape": "hv" if not tail else "linear"},
            hovertemplate="%{x:,.4~r} ms: %{y:.3g} %",
        )
    figure.update_xaxes(title=f"{METRICS[metric]}, ms", tickformat=",")
    some = [x for x in seen if x >= LEAST_MS]
    if is_wide(some):
        figure.update_xaxes(**log_ticks([min(some), max(some)]))
    return figure


def _with_limits(figure: go.Figure, limits: Mapping[str, float], *, top: bool) -> go.Figure:
    """A line for each limit, its words where the curves are not: at the top or at the bottom."""
    for place, (words, seconds) in enumerate(limits.items()):
        ms = 1e3 * seconds
        figure.add_vline(x=ms, line={"color": style.SLO_COLOR, "dash": "dash"})
        figure.add_annotation(
            x=math.log10(ms) if figure.layout.xaxis.type == "log" else ms,
            y=int(top),
            yref="y domain",
            yshift=(-16 if top else 16) * place,
            text=f"{words} {digits(ms)} ms",
            xanchor="right",
            yanchor="top" if top else "bottom",
            showarrow=False,
        )
    return figure


def over_time_figure(points: Mapping[str, Mapping[str, Any]]) -> go.Figure:
    """Waiting and running requests, tokens per step and KV use: the peaks of the first point filled
    and of others as lines; medians once their name is clicked.

    `points`: name -> what `derive.latency.over_time` has of it, failed ones left out.
    """
    longest = max((p["time_s"][-1] for p in points.values() if p["time_s"]), default=0.0)
    unit, per = ("minutes", 60.0) if longest > LONG_S else ("seconds", 1.0)
    figure = make_subplots(
        len(OVER_TIME), 1, shared_xaxes=True, vertical_spacing=0.07,
        subplot_titles=list(OVER_TIME.values()),
    )  # fmt: skip
    known = looks(list(points))
    for kind in ("peak", "median"):
        for place, (name, one) in enumerate(points.items()):
            if one["time_s"]:
                line = {"color": known[name].color, "width": 1.2, "dash": _DASH[kind]}
                drawn = {
                    "x": [t / per for t in one["time_s"]],
                    "name": f"{name}, {kind}",
                    "line": line,
                    "fill": "tozeroy" if place == 0 and kind == "peak" else None,
                    "visible": True if kind == "peak" else "legendonly",
                    "hovertemplate": f"%{{x:,.1f}} {unit}: %{{y:,.4~r}}",
                }
                _add_series(figure, {s: one[s][kind] for s in OVER_TIME}, drawn)
    figure.update_xaxes(title_text=f"time in the traffic, {unit}", row=len(OVER_TIME), col=1)
    return figure.update_yaxes(rangemode="tozero")


_DASH = {"peak": "solid", "median": "dot"}


def _add_series(figure: go.Figure, series: Mapping[str, Any], drawn: dict[str, Any]) -> None:
    """The four series of one point, a panel each, under one name of the legend."""
    for row, name in enumerate(OVER_TIME, start=1):
        figure.add_scatter(
            y=series[name],
            legendgroup=drawn["name"],
            showlegend=row == 1,
            mode="lines",
            **drawn,
            row=row,
            col=1,
        )


def tall(figure: go.Figure, source: str, height: int) -> go.Figure:
    """`style.finish` of panels below each other: the legend above the first panel's title."""
    style.finish(figure, source, height=height)
    return figure.update_layout(legend_y=1 + 24 / height)
