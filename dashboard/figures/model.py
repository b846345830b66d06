"""The latency model against what it was fitted on or confirmed by. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dashboard.figures import style
from profiler.latency.report import HeldOutReport
from profiler.latency.step_time import REGION_NAMES

LOOKS = {
    "decode-only": (style.BLUE, "circle-open", "solid"),
    "chunk-only": (style.VERMILION, "triangle-up-open", "dash"),
    "mixed": (style.GREEN, "square-open", "dot"),
}
"""region -> colour, symbol, dash"""
_CLOSE = 1.1


def scatter_figure(found: Mapping[str, Any]) -> go.Figure:
    """Predicted over measured step time, ms, a point a step; the diagonal and +-10 %.

    Parameters
    ----------
    found
        Of `held_out`.
    """
    figure = go.Figure()
    ends = _ends(found)
    for factor, dash, name in ((1.0, "solid", "equal"), (_CLOSE, "dash", "± 10 %")):
        for sign in (factor, 1 / factor):
            figure.add_scatter(
                x=ends,
                y=[sign * end for end in ends],
                mode="lines",
                line={"color": style.GREY, "dash": dash, "width": 1},
                name=name,
                legendgroup=name,
                showlegend=sign == factor,
                hoverinfo="skip",
            )
            if factor == 1.0:
                break
    for region in (name for name in REGION_NAMES if name in found["regions"]):
        one, (color, symbol, _) = found["regions"][region], LOOKS[region]
        figure.add_scattergl(
            x=[1e3 * t for t in one["measured_s"]],
            y=[1e3 * t for t in one["predicted_s"]],
            customdata=one["tokens"],
            mode="markers",
            marker={"color": color, "symbol": symbol, "size": 5, "opacity": 0.6},
            name=f"{region} ({one['num_steps']:,})",
            hovertemplate="%{x:,.3~r} ms, predicted %{y:,.3~r} ms, %{customdata:,} tokens"
            "<extra></extra>",
        )
    of = "published GPU time" if found["predicted_profile"] else "measured step time"
    figure.update_xaxes(type="log", title=f"{of}, ms", **_ticks(ends))
    figure.update_yaxes(type="log", title="predicted step time, ms", **_ticks(ends))
    return figure


def _ends(found: Mapping[str, Any]) -> list[float]:
    """Least and greatest of all times, ms."""
    times = [
        1e3 * time
        for one in found["regions"].values()
        for time in (*one["measured_s"], *one["predicted_s"])
        if time > 0
    ]
    return [min(times), max(times)] if times else [1.0, 10.0]


def _ticks(ends: list[float]) -> dict[str, Any]:
    """1, 2, 5 within a decade or two, powers of ten beyond."""
    wide = math.log10(ends[1] / ends[0]) > 2
    return {"dtick": 1 if wide else "D2", "tickformat": ",~g"}


def residual_figure(found: Mapping[str, Any]) -> go.Figure:
    """Share of steps by signed error of the prediction, a line a region, per cent.

    Parameters
    ----------
    found
        Of `held_out`.
    """
    figure = go.Figure()
    edges = found["edges_percent"]
    middles = [(a + b) / 2 for a, b in pairwise(edges)]
    for region in (name for name in REGION_NAMES if name in found["regions"]):
        color, _, dash = LOOKS[region]
        figure.add_scatter(
            x=middles,
            y=found["regions"][region]["share_percent"],
            mode="lines",
            line={"color": color, "dash": dash, "shape": "hvh"},
            name=region,
            hovertemplate="%{x:+.0f} %: %{y:.1f} % of the steps<extra></extra>",
        )
    for at in (-10, 10):
        figure.add_vline(x=at, line={"color": style.GREY, "dash": "dash", "width": 1})
    figure.add_vline(x=0, line={"color": style.GREY, "width": 1})
    against = "published GPU time" if found["predicted_profile"] else "measured"
    figure.update_xaxes(
        title=f"predicted against {against}, % (ends: that and more)", range=[edges[0], edges[-1]]
    )
    figure.update_yaxes(title="steps of the region, %", rangemode="tozero")
    return figure


def errors_figure(report: HeldOutReport) -> go.Figure:
    """Median and p95 of the absolute error by region and size, per cent, and the noise floor."""
    rows = list(report.rows)[::-1]
    labels = [row.region if row.size == "all" else f"  {row.region},<br>{row.size}" for row in rows]
    figure = go.Figure()
    for label, row in zip(labels, rows, strict=True):
        figure.add_scatter(
            x=[100 * row.median, 100 * row.p95],
            y=[label, label],
            mode="lines",
            line={"color": style.GREY, "width": 1},
            showlegend=False,
            hoverinfo="skip",
        )
    for name, symbol, color in (
        ("median", "circle", style.BLUE),
        ("p95", "diamond-open", style.VERMILION),
    ):
        figure.add_scatter(
            x=[100 * getattr(row, name) for row in rows],
            y=labels,
            customdata=[row.num_steps for row in rows],
            mode="markers",
            marker={"symbol": symbol, "size": 10, "color": color},
            name=name,
            hovertemplate=f"{name} %{{x:.2f}} %, %{{customdata:,}} steps<extra></extra>",
        )
    if report.step_noise is not None:
        figure.add_vline(x=100 * report.step_noise, line={"dash": "dot", "color": style.PURPLE})
        figure.add_scatter(
            x=[None],
            y=[None],
            mode="lines",
            line={"dash": "dot", "color": style.PURPLE},
            name="the machine's own noise",
        )
    figure.update_xaxes(title="absolute error of a step, %", rangemode="tozero")
    figure.update_yaxes(
        type="category", categoryorder="array", categoryarray=labels, automargin=True
    )
    return figure


def confirmed_figure(errors: pd.DataFrame, seen: str) -> go.Figure:
    """Error of each predicted figure against the confirmed one, per cent.

    Parameters
    ----------
    errors
        Of `confirmed_errors`. Filled: within the 90 % interval of the prediction; open: outside, or
        there is none.
    seen
        measured or rehearsed.
    """
    figure = go.Figure()
    names = list(dict.fromkeys(errors["figure"]))[::-1]
    for place, (candidate, rows) in enumerate(errors.groupby("candidate", sort=False)):
        symbol = style.SYMBOLS[place % len(style.SYMBOLS)]
        figure.add_scatter(
            x=rows["error_percent"],
            y=rows["figure"],
            mode="markers",
            marker={
                "symbol": [symbol if held is True else f"{symbol}-open" for held in rows["within"]],
                "size": 11,
                "color": style.SERIES[place % len(style.SERIES)],
            },
            customdata=rows[["predicted", "confirmed", "unit", "interval"]].to_numpy(),
            hovertemplate="%{y}: %{customdata[0]:,.3~r} predicted (%{customdata[3]}), "
            f"%{{customdata[1]:,.3~r}} %{{customdata[2]}} {seen}: %{{x:+.1f}} %<extra></extra>",
            name=str(candidate),
        )
    figure.add_vline(x=0, line={"color": style.GREY, "width": 1})
    speed = " at profile speed" if seen == "measured" else ""
    figure.update_xaxes(title=f"predicted against {seen}{speed}, %")
    figure.update_yaxes(type="category", categoryorder="array", categoryarray=names)
    return figure


def coverage_figure(found: Mapping[str, Any]) -> go.Figure:
    """Shapes of steps: sampled, and over them those that the simulation reaches.

    Two panels: decode-only steps (decodes, context per decode), and steps with chunks (prompt
    tokens, decodes; none is drawn at 0.5).

    Parameters
    ----------
    found
        Of `coverage`.
    """
    figure = make_subplots(rows=2, cols=1, vertical_spacing=0.16)
    panels = (
        ("decode_only", "decodes", "context", "decodes in a decode-only step", "context a decode"),
        ("with_chunks", "prompt_tokens", "decodes", "prompt tokens in a step", "decodes beside"),
    )
    looks = (
        ("sampled", style.GREY, "circle-open", 6),
        ("simulated", style.VERMILION, "x-thin-open", 5),
    )
    for place, (panel, x, y, x_title, y_title) in enumerate(panels, start=1):
        for name, color, symbol, size in looks:
            if found[name] is None:
                continue
            points = found[name][panel]
            figure.add_scattergl(
                x=[max(0.5, v) for v in points[x]],
                y=[max(0.5, v) for v in points[y]],
                mode="markers",
                marker={"color": color, "symbol": symbol, "size": size, "line": {"width": 1}},
                name=f"{name} ({found[name]['num_steps']:,} steps)",
                legendgroup=name,
                showlegend=place == 1,
                hovertemplate=f"{x_title}: %{{x:,}}, {y_title}: %{{y:,}}<extra>{name}</extra>",
                row=place,
                col=1,
            )
        figure.update_xaxes(title=f"{x_title}, tokens" if place == 2 else x_title, row=place, col=1)
        figure.update_yaxes(title=y_title, row=place, col=1)
    figure.update_xaxes(type="log", dtick=1, tickformat=",~g")
    figure.update_yaxes(type="log", dtick=1, tickformat=",~g")
    return figure


def speed_figure(speed: Mapping[str, list[float]]) -> go.Figure:
    """The machine's speed over the profile: sentinel runs, and as step times were corrected by it.

    Parameters
    ----------
    speed
        Of `machine_speed`.
    """
    figure = go.Figure()
    figure.add_scatter(
        x=speed["reading_s"],
        y=speed["reading"],
        mode="markers",
        marker={"symbol": "diamond-open", "size": 8, "color": style.VERMILION},
        name="a sentinel run",
        hovertemplate="%{x:.1f} s: %{y:.2f}<extra></extra>",
    )
    figure.add_scatter(
        x=speed["used_s"],
        y=speed["used"],
        mode="lines",
        line={"color": style.BLUE},
        name="used (smoothed)",
        hovertemplate="%{x:.1f} s: %{y:.2f}<extra></extra>",
    )
    figure.add_hline(y=1.0, line={"color": style.GREY, "dash": "dot", "width": 1})
    figure.update_xaxes(title="time in the profile, seconds")
    figure.update_yaxes(title="speed (1: the profile's own)", rangemode="tozero")
    return figure
