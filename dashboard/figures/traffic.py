"""Traffic to figures: lengths, rate, burstiness, and before against after. Pure: plain data of
`dashboard.derive.traffic_shape` in, figures out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dashboard.figures import style
from dashboard.figures.digits import is_wide

_STANDOFF = 4
"""pixels between the ticks of an axis and its title, so that the source has its place below"""
_DENSITY = ["#fdd49e", "#fc8d59", "#b30000"]
"""ColorBrewer's OrRd without its ends, which a light or a dark ground hides"""
_MINUTES_FROM_S = 600.0
"""time axes of longer traffic are in minutes"""


def lengths_figure(histograms: Mapping[str, Mapping[str, Any]]) -> go.Figure:
    """Distributions of prompt lengths above those of output lengths, a line per class; log axes of
    lengths."""
    figure = _two_rows()
    for row, (side, of_class) in enumerate(histograms.items(), start=1):
        for number, (name, bins) in enumerate(of_class.items()):
            edges, density = bins["edges"], bins["density"]
            line = go.Scatter(
                x=edges,
                y=[*density, density[-1]],
                name=name,
                legendgroup=name,
                showlegend=row == 1 and len(of_class) > 1,
                line={"shape": "hv", **_line(number)},
                fill="tozeroy" if len(of_class) == 1 else None,
                hovertemplate=f"{side}s from %{{x:,}} tokens: %{{y:.3g}} % per doubling",
            )
            figure.add_trace(line, row=row, col=1)
        _length_axis(figure, side, row)
        figure.update_yaxes(title_text="% per doubling", rangemode="tozero", row=row, col=1)
    return figure


def joint_figure(joint: Mapping[str, Any]) -> go.Figure:
    """Requests by prompt and output length: darker is more, on a log scale."""
    counts = np.array(joint["counts"], dtype=np.float64)
    shown = np.where(counts > 0, np.log10(np.maximum(counts, 1.0)), np.nan)
    top = int(counts.max())
    ticks = [10**i for i in range(len(str(top)))]
    figure = go.Figure(
        go.Heatmap(
            x=joint["prompt"],
            y=joint["output"],
            z=shown,
            customdata=counts,
            colorscale=_DENSITY,
            zmin=0.0,
            zmax=max(1.0, float(np.log10(top))),
            colorbar={
                "title": "requests",
                "tickvals": np.log10(ticks),
                "ticktext": [f"{tick:,}" for tick in ticks],
                "thickness": 14,
            },
            hovertemplate="%{customdata:,} requests: prompts of %{x:,.0f}, outputs of %{y:,.0f} "
            "tokens<extra></extra>",
        )
    )
    figure.update_xaxes(title_text="prompt, tokens", **_log_ticks(joint["prompt"]))
    figure.update_yaxes(title_text="output, tokens", **_log_ticks(joint["output"]))
    return figure


def rate_figure(rate: Mapping[str, Any], regimes: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Arrival rate over time; each regime's mean over it, where there are several."""
    figure = go.Figure()
    _add_rate(figure, rate, name="rate", color=style.SKY, dash="solid")
    unit, scale = _time(rate["bin_s"] * len(rate["rate_rps"]))
    for number, regime in enumerate(regimes if len(regimes) > 1 else (), start=1):
        start, end = scale * regime["start_s"], scale * regime["end_s"]
        figure.add_scatter(
            x=[start, end],
            y=[regime["rate_rps"]] * 2,
            mode="lines",
            line={"color": style.VERMILION, "width": 4},
            name="mean of a regime",
            legendgroup="regime",
            showlegend=number == 1,
            hovertemplate=f"regime {number}: %{{y:,.3~r}} requests/s<extra></extra>",
        )
        if number > 1:
            figure.add_vline(x=start, line_dash="dot", line_color=style.GREY)
        figure.add_annotation(
            x=(start + end) / 2, y=0, text=str(number), showarrow=False, yshift=10
        )
    figure.update_xaxes(title_text=f"time, {unit}", title_standoff=_STANDOFF)
    figure.update_yaxes(title_text="requests/s", rangemode="tozero")
    return figure


def burstiness_figure(burstiness: Mapping[str, Sequence[float]]) -> go.Figure:
    """Index of dispersion over the length of windows, with where Poisson processes lie."""
    windows = list(burstiness["window_s"])
    figure = go.Figure()
    figure.add_scatter(
        x=[*windows, *windows[::-1]],
        y=[*burstiness["high"], *list(burstiness["low"])[::-1]],
        fill="toself",
        mode="lines",
        line={"width": 0, "color": style.GREY},
        name="90 % of Poisson processes",
        hoverinfo="skip",
    )
    figure.add_scatter(
        x=windows,
        y=list(burstiness["dispersion"]),
        mode="lines+markers",
        line={"color": style.BLUE},
        name="this traffic",
        hovertemplate="windows of %{x:,.3~r} s: %{y:,.3~r}<extra></extra>",
    )
    figure.add_hline(y=1.0, line_dash="dash", line_color=style.GREY)
    figure.update_xaxes(title_text="window, seconds", **_log_ticks(windows))
    spread = [*burstiness["dispersion"], *burstiness["low"]]
    look = _log_ticks(spread) if is_wide(spread) else {}
    figure.update_yaxes(title_text="variance / mean of arrivals", **look)
    return figure


def before_after_lengths(cumulated: Mapping[str, Mapping[str, Any]]) -> go.Figure:
    """Prompt lengths above output lengths, cumulated: `cumulated[side]["before" | "after"]`."""
    figure = _two_rows()
    for row, (side, pair) in enumerate(cumulated.items(), start=1):
        for name, look in _BEFORE_AFTER.items():
            line = go.Scatter(
                x=pair[name]["tokens"],
                y=pair[name]["share"],
                name=look["name"],
                showlegend=row == 1,
                line={"shape": "hv", "color": look["color"], "dash": look["dash"]},
                hovertemplate="%{y:.3g} % have at most %{x:,} tokens",
            )
            figure.add_trace(line, row=row, col=1)
        _length_axis(figure, side, row)
        figure.update_yaxes(title_text="% at most", range=[0, 101], row=row, col=1)
    return figure


def before_after_rate(rates: Mapping[str, Mapping[str, Any]]) -> go.Figure:
    """Arrival rates of both over time: `rates["before" | "after"]`, each from its own start."""
    figure = go.Figure()
    longest = max(r["bin_s"] * len(r["rate_rps"]) for r in rates.values())
    for name, look in _BEFORE_AFTER.items():
        _add_rate(figure, rates[name], **look, longest_s=longest)
    unit, _ = _time(longest)
    figure.update_xaxes(title_text=f"time from each one's start, {unit}", title_standoff=_STANDOFF)
    figure.update_yaxes(title_text="requests/s", rangemode="tozero")
    return figure


_BEFORE_AFTER = {
    "before": {"name": "of the study", "color": style.BLUE, "dash": "solid"},
    "after": {"name": "newer", "color": style.VERMILION, "dash": "dash"},
}


def _add_rate(
    figure: go.Figure, rate: Mapping[str, Any], *, longest_s: float | None = None, **look: str
) -> None:
    """A step for each bin."""
    bin_s, rates = rate["bin_s"], rate["rate_rps"]
    _, scale = _time(bin_s * len(rates) if longest_s is None else longest_s)
    figure.add_scatter(
        x=[scale * bin_s * i for i in range(len(rates) + 1)] if rates else [],
        y=[*rates, rates[-1]] if rates else [],
        mode="lines",
        line={"shape": "hv", "color": look["color"], "dash": look["dash"], "width": 1.5},
        name=look["name"],
        hovertemplate="%{y:,.3~r} requests/s",
    )


def _time(longest_s: float) -> tuple[str, float]:
    """Unit of a time axis, and what to multiply seconds with."""
    return ("minutes", 1 / 60) if longest_s >= _MINUTES_FROM_S else ("seconds", 1.0)


def _line(number: int) -> dict[str, str]:
    return {
        "color": style.SERIES[number % len(style.SERIES)],
        "dash": style.DASHES[number % len(style.DASHES)],
    }


def _two_rows() -> go.Figure:
    return make_subplots(rows=2, cols=1, vertical_spacing=0.22)


def _length_axis(figure: go.Figure, side: str, row: int) -> None:
    values = [float(x) for trace in figure.select_traces(row=row, col=1) for x in trace.x]
    title = f"{side} length, tokens"
    figure.update_xaxes(title_text=title, **_log_ticks(values), row=row, col=1)


def _log_ticks(values: Sequence[float]) -> dict[str, Any]:
    """A log axis; where it spans little, plotly's own labels of it would be 2, 5, 2, 5, ..."""
    spread = max(values) / max(1e-12, min(values))
    every = {"dtick": 1} if spread > 100 else {}
    return {"type": "log", "title_standoff": _STANDOFF, **every}
