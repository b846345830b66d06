"""Router rules: how trials under each did, and one fleet under all of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dashboard.figures import style
from dashboard.figures.digits import is_wide

_PANELS = (
    ("per_gpu", "good requests/s per GPU", 1.0, style.BLUE),
    ("ttft_p99_s", "TTFT p99, ms", 1e3, style.VERMILION),
    ("itl_p99_s", "ITL p99, ms", 1e3, style.GREEN),
)


def rules_figure(quantiles: pd.DataFrame) -> go.Figure:
    """A box (25 to 75 %, whiskers 5 to 95 %) per pair of router rules and figure.

    Parameters
    ----------
    quantiles
        Of `fleet_frames.rule_quantiles`.
    """
    figure = make_subplots(rows=len(_PANELS), cols=1, vertical_spacing=0.14)
    for place, (name, title, scale, color) in enumerate(_PANELS, start=1):
        rows = quantiles[quantiles["figure"] == name].sort_values("rules", ascending=False)
        figure.add_box(
            y=[f"{r} ({n})" for r, n in zip(rows["rules"], rows["trials"], strict=True)],
            q1=scale * rows["q25"],
            median=scale * rows["q50"],
            q3=scale * rows["q75"],
            lowerfence=scale * rows["q5"],
            upperfence=scale * rows["q95"],
            orientation="h",
            line={"color": color},
            fillcolor="rgba(140, 140, 140, 0.25)",
            showlegend=False,
            row=place,
            col=1,
        )
        _axis(figure, place, title, [scale * v for v in (*rows["q5"], *rows["q95"])])
    figure.update_yaxes(automargin=True)
    return figure


def effects_figure(rows: Sequence[Mapping[str, Any]], limits: Mapping[str, float]) -> go.Figure:
    """One fleet under each rule: a dot per rule and figure, with its 90 % interval.

    Parameters
    ----------
    rows
        Of `router_effects`; refused ones are left out.
    limits
        ttft_p99_s and itl_p99_s, seconds, where there is one such SLO.
    """
    shown = [row for row in rows if row["refused"] is None][::-1]
    labels = [f"{row['part']}: {row['rule']}{' ★' if row['own'] else ''}" for row in shown]
    figure = make_subplots(rows=len(_PANELS), cols=1, vertical_spacing=0.12)
    for place, (name, title, scale, color) in enumerate(_PANELS, start=1):
        points = [
            (label, row) for label, row in zip(labels, shown, strict=True) if row[name] is not None
        ]
        spans = [_span(row, name) for _, row in points]
        values = [scale * row[name] for _, row in points]
        figure.add_scatter(
            x=values,
            y=[label for label, _ in points],
            error_x={
                "array": [scale * high for _, high in spans],
                "arrayminus": [scale * low for low, _ in spans],
                "thickness": 1,
                "color": style.GREY,
            },
            mode="markers",
            marker={
                "symbol": ["circle" if row["meets_slo"] else "x" for _, row in points],
                "size": [12 if row["own"] else 9 for _, row in points],
                "color": color,
            },
            hovertemplate="%{y}: %{x:,.4~r}<extra></extra>",
            showlegend=False,
            row=place,
            col=1,
        )
        if name in limits:
            line = {"dash": "dash", "color": style.SLO_COLOR}
            figure.add_vline(x=scale * limits[name], line=line, row=place, col=1)
        _axis(figure, place, title, values)
    figure.update_yaxes(
        automargin=True, type="category", categoryorder="array", categoryarray=labels
    )
    _explain(figure, bool(set(limits) & {"ttft_p99_s", "itl_p99_s"}))
    return figure


def _span(row: Mapping[str, Any], name: str) -> tuple[float, float]:
    """How far the interval's ends lie below and above the figure."""
    key = "goodput_rps" if name == "per_gpu" else name
    ends = row["intervals"].get(key)
    if ends is None or None in ends:
        return 0.0, 0.0
    share = row["per_gpu"] / row["goodput_rps"] if name == "per_gpu" and row["goodput_rps"] else 1.0
    return max(0.0, row[name] - share * ends[0]), max(0.0, share * ends[1] - row[name])


def _axis(figure: go.Figure, place: int, title: str, values: Sequence[float]) -> None:
    log = is_wide(values)
    figure.update_xaxes(title=title, type="log" if log else "linear", row=place, col=1)
    if log:
        figure.update_xaxes(dtick=1, tickformat=",", row=place, col=1)


def _explain(figure: go.Figure, with_limits: bool) -> None:
    for symbol, name in (("circle", "meets the SLOs"), ("x", "misses an SLO")):
        marker = {"symbol": symbol, "size": 9, "color": style.GREY}
        figure.add_scatter(x=[None], y=[None], mode="markers", marker=marker, name=name)
    if with_limits:
        line = {"dash": "dash", "color": style.SLO_COLOR}
        figure.add_scatter(x=[None], y=[None], mode="lines", line=line, name="SLO")
