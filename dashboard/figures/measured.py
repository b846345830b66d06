"""What was measured over what is simulated: steps of the profile, requests of replays. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from dashboard.figures import style
from dashboard.figures.digits import latency, value_axis
from tuner.explain.words import plural


def profile_steps_figure(found: Mapping[str, Any]) -> go.Figure:
    """Steps of the slice of traffic that the profile replayed: measured over simulated."""
    figure, seen = go.Figure(), []
    for name, color, symbol in (
        ("simulated", style.ORANGE, "x-thin-open"),
        ("measured", style.BLUE, "circle-open"),
    ):
        one = found[name]
        ms = [1e3 * s for s in one["seconds"]]
        seen += ms
        figure.add_scatter(
            x=one["time_s"],
            y=ms,
            mode="markers",
            name=name,
            marker={"color": color, "symbol": symbol, "size": 6},
            customdata=list(zip(one["tokens"], one["decodes"], strict=True)),
            hovertemplate=(
                "%{y:,.4~r} ms: %{customdata[0]:,} prompt tokens, %{customdata[1]:,} decodes"
            ),
        )
    figure.update_yaxes(**value_axis(seen))
    figure.update_xaxes(title="seconds since the first step")
    return figure.update_yaxes(title="step, ms")


def ttft_figure(found: Mapping[str, Any], seen_as: str, request: int | None = None) -> go.Figure:
    """TTFT of every replayed request over its arrival, as seen (one mark a round) and as predicted
    (from the lowest to the highest of the rounds' jitters); `request` is marked."""
    figure, every = go.Figure(), []
    x = found["arrival_s"]
    predicted = list(zip(*(r["predicted_s"] for r in found["rounds"]), strict=True))
    for pick, width in ((min, 0.0), (max, 1.0)):
        ends = [1e3 * pick(p) if None not in p else None for p in predicted]
        every += [y for y in ends if y]
        figure.add_scatter(
            x=x,
            y=ends,
            mode="lines+markers",
            marker={"symbol": "line-ew-open", "size": 7, "color": style.ORANGE},
            line={"color": style.ORANGE, "width": 0},
            name="predicted",
            legendgroup="predicted",
            showlegend=bool(width),
        )
    for number, (one, symbol) in enumerate(zip(found["rounds"], _ROUNDS, strict=False), start=1):
        ms = [None if s is None else 1e3 * s for s in one["seen_s"]]
        every += [y for y in ms if y]
        figure.add_scatter(
            x=x,
            y=ms,
            mode="markers",
            marker={"symbol": symbol, "size": 7, "color": style.BLUE},
            name=f"{seen_as}, round {number} (speed {one['speed']:.2f})",
            customdata=found["numbers"],
            hovertemplate="request %{customdata:,}: %{y:,.4~r} ms",
        )
    if request in found["numbers"]:
        figure.add_vline(
            x=x[found["numbers"].index(request)], line_dash="dot", line_color=style.PURPLE
        )
    figure.update_yaxes(**value_axis(every))
    figure.update_xaxes(title="arrival, seconds")
    return figure.update_yaxes(title="TTFT, ms")


_ROUNDS = ("circle-open", "square-open", "diamond-open", "cross-open", "triangle-up-open")


def words_of_similar(similar: Mapping[str, Any]) -> str:
    """How the longest simulated step compares with measured ones of its kind."""
    batch = f"{plural(similar['tokens'], 'prompt token')}, {plural(similar['decodes'], 'decode')}"
    if not similar["count"]:
        return f"The profile measured no step like the longest one here ({batch})."
    low, middle, high = (latency(similar[f"{name}_s"]) for name in ("low", "median", "high"))
    return (
        f"The longest step here ({batch}) takes {latency(similar['seconds'])}, simulated; "
        f"{plural(similar['count'], 'measured step')} like it took {low} to {high}, median "
        f"{middle}, at the profile's speed."
    )
