"""The steps around a spike, and a request's own time. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from dashboard.figures import style
from dashboard.figures.digits import latency, value_axis
from tuner.explain.words import plural

MOST_ROWS = 8
"""requests with chunks that have a row of their own"""
OTHERS, DECODES, JITTER = "other chunks", "decodes", "jitter"
LEAST_JITTER = 0.01
"""part of a step's time from which on its jitter is drawn"""
CUT_OFF = 2.0
"""bars of a request's time end at so many times its TTFT"""

Story = Mapping[str, Any]
"""as `derive.why` has it"""


class Bar(NamedTuple):
    """A part of a step; milliseconds after the spike's start."""

    row: str
    start_ms: float
    ms: float
    text: str


def steps_figure(story: Story) -> go.Figure:
    """One row for each request with a chunk, one for the decodes, and the explained request's
    tokens on top; a bar is that part's share of the step's time. The spike is shaded."""
    own = f"#{story['request']:,}"
    bars = bars_of(story)
    rows = [row for row in dict.fromkeys(bar.row for bar in bars) if row not in _LAST]
    rows = [f"{own} tokens", *rows, *(r for r in _LAST if any(b.row == r for b in bars))]
    culprit = max((b for b in bars if b.row not in _LAST), key=lambda b: b.ms, default=None)
    figure = go.Figure()
    for row in rows[1:]:
        some = [bar for bar in bars if bar.row == row]
        figure.add_bar(
            orientation="h",
            y=[row] * len(some),
            base=[bar.start_ms for bar in some],
            x=[bar.ms for bar in some],
            marker=_marker(row, f"{own} prompt", culprit),
            text=[bar.text for bar in some],
            textposition="none",
            hovertemplate="%{text}<extra></extra>",
            showlegend=False,
        )
    _add_tokens(figure, story, rows[0])
    end_ms = 1e3 * (story["end_s"] - story["start_s"])
    figure.add_vrect(0, end_ms, fillcolor=style.PURPLE, opacity=0.15, line_width=0, layer="below")
    figure.update_yaxes(categoryorder="array", categoryarray=rows[::-1], automargin=True)
    where = "the start of the gap" if story["kind"] == "gap" else "its arrival"
    figure.update_xaxes(title=f"ms after {where}, at {story['start_s']:,.3f} s", tickformat=",")
    return figure.update_layout(barmode="overlay", bargap=0.25)


_LAST = (OTHERS, DECODES, JITTER)


def bars_of(story: Story) -> list[Bar]:
    """The parts of every step, one after the other within its time.

    Jitter below zero shortens all parts alike, so that they fill the step and no more.
    """
    own_row = named_rows(story)
    found = []
    for step in story["steps"]:
        parts = [
            (own_row.get(c["request"], OTHERS), c["seconds"], _chunk_words(c))
            for c in step["chunks"]
        ]
        if step["num_decodes"] or not step["chunks"]:
            parts.append((DECODES, step["decodes_s"], plural(step["num_decodes"], "decode")))
        else:
            parts.append((DECODES, step["decodes_s"], "fixed cost, no decodes"))
        if step["jitter_s"] > LEAST_JITTER * step["seconds"]:
            parts.append((JITTER, step["jitter_s"], "jitter"))
        total = sum(seconds for _, seconds, _ in parts)
        scale = 1e3 * min(1.0, step["seconds"] / total) if total > 0 else 0.0
        at_ms = 1e3 * (step["start_s"] - story["start_s"])
        for row, seconds, words in parts:
            text = f"{words}: {latency(seconds)}<br>{_step_words(step)}"
            found.append(Bar(row, at_ms, scale * seconds, text))
            at_ms += scale * seconds
    return found


def named_rows(story: Story) -> dict[int, str]:
    """Request -> row, of the explained one and of those with the most time in chunks."""
    spent: dict[int, float] = defaultdict(float)
    for step in story["steps"]:
        for chunk in step["chunks"]:
            spent[chunk["request"]] += chunk["seconds"]
    most = sorted(spent, key=lambda r: (r != story["request"], -spent[r]))[:MOST_ROWS]
    return {request: f"#{request:,} prompt" for request in most}


def _chunk_words(chunk: Mapping[str, Any]) -> str:
    before = f" after {chunk['before']:,}" if chunk["before"] else ""
    return f"{chunk['tokens']:,} tokens of #{chunk['request']:,}{before}"


def _step_words(step: Mapping[str, Any]) -> str:
    return (
        f"step {step['number']:,}: {latency(step['seconds'])}, {step['num_running']:,} running, "
        f"{step['num_waiting']:,} waiting, {step['free_blocks']:,} KV blocks free"
    )


def _marker(row: str, own: str, culprit: Bar | None) -> dict[str, Any]:
    """Colour and pattern of a row's bars."""
    line = {"color": "white", "width": 0.5}
    if row == DECODES:
        return {"color": style.SKY, "line": line}
    if row == JITTER:
        return {"color": style.GREY, "line": line, "pattern": {"shape": "x"}}
    if row == own:
        return {"color": style.BLUE, "line": line}
    pattern = {"shape": "/"}
    if culprit is not None and row == culprit.row:
        return {"color": style.VERMILION, "line": line, "pattern": pattern}
    return {"color": style.ORANGE, "line": line}


def _add_tokens(figure: go.Figure, story: Story, row: str) -> None:
    """The explained request's tokens, and a line over what is explained."""
    start_s, end_s = story["start_s"], story["end_s"]
    figure.add_scatter(
        x=[0.0, 1e3 * (end_s - start_s)],
        y=[row, row],
        mode="lines",
        line={"color": style.PURPLE, "width": 6},
        name="the gap" if story["kind"] == "gap" else "its TTFT",
        hovertemplate=f"{latency(story['seconds'])}<extra></extra>",
    )
    figure.add_scatter(
        x=[1e3 * (t - start_s) for t in story["tokens_s"]],
        y=[row] * len(story["tokens_s"]),
        mode="markers",
        marker={"symbol": "diamond", "size": 9, "color": style.BLUE},
        name=f"tokens of #{story['request']:,}",
        hovertemplate="%{x:,.1f} ms<extra></extra>",
    )


def waterfall_figure(parts: Sequence[Mapping[str, Any]], ttft_s: float) -> go.Figure:
    """Where a request's time went from arrival on; what comes after the first token is cut off
    where it is much longer."""
    end_ms = CUT_OFF * 1e3 * ttft_s
    names = [part["what"] for part in parts]
    starts = [1e3 * part["start_s"] for part in parts]
    lengths = [min(1e3 * p["seconds"], end_ms - s) for p, s in zip(parts, starts, strict=True)]
    whole = [1e3 * p["seconds"] <= end_ms - s for p, s in zip(parts, starts, strict=True)]
    texts = [
        latency(part["seconds"]) + ("" if fits else ", cut off")
        for part, fits in zip(parts, whole, strict=True)
    ]
    figure = go.Figure()
    figure.add_bar(
        orientation="h",
        y=names,
        base=starts,
        x=lengths,
        text=texts,
        textposition="auto",
        marker={"color": [style.SKY if n.endswith("more tokens") else style.BLUE for n in names]},
        hovertemplate="%{y}: %{text}<extra></extra>",
    )
    figure.add_vline(x=1e3 * ttft_s, line_dash="dash", line_color=style.GREY)
    figure.update_yaxes(categoryorder="array", categoryarray=names[::-1], automargin=True)
    figure.update_xaxes(title="ms after arrival; dashed: first token", range=[0, 1.02 * end_ms])
    return figure.update_layout(showlegend=False)


def gaps_figure(gaps_s: Sequence[float], limit_s: float | None) -> go.Figure:
    """Every gap between two tokens of one request, in order, and the ITL limit of its class."""
    ms = [1e3 * gap for gap in gaps_s]
    figure = go.Figure()
    figure.add_scatter(
        x=list(range(2, len(ms) + 2)),
        y=ms,
        mode="lines+markers",
        marker={"size": 4, "color": style.BLUE},
        line={"color": style.BLUE, "width": 1},
        name="gap before the token",
        hovertemplate="token %{x}: %{y:,.4~r} ms<extra></extra>",
        showlegend=limit_s is not None,
    )
    if limit_s is not None:
        figure.add_scatter(
            x=[2, len(ms) + 1],
            y=[1e3 * limit_s] * 2,
            mode="lines",
            line={"color": style.SLO_COLOR, "dash": "dash"},
            name=f"SLO {latency(limit_s)}",
        )
    figure.update_yaxes(**value_axis(ms))
    figure.update_xaxes(title="token of the answer")
    return figure.update_yaxes(title="gap, ms")
