"""How figures look: colours that the colour-blind can tell apart, in grey and on dark ground too.

The colours are Okabe and Ito's (Color Universal Design, 2008) without black and yellow, which one
of the two grounds hides. Nothing is told by colour alone: marks differ in shape, lines in dash.
Text, grid and ground are left to the page's theme.
"""

from __future__ import annotations

import plotly.graph_objects as go

from tuner.looks import BLUE, DASHES, GREEN, GREY, ORANGE, PURPLE, SKY, SYMBOLS, VERMILION
from tuner.results import Results

__all__ = ["BLUE", "DASHES", "GREEN", "GREY", "ORANGE", "PURPLE", "SKY", "SYMBOLS", "VERMILION"]

SERIES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
"""of things without a meaning of their own, in this order"""
DEFAULT_COLOR, RECOMMENDED_COLOR, CHOSEN_COLOR = VERMILION, GREEN, BLUE
SLO_COLOR = PURPLE


def source_of(results: Results) -> str:
    """Which run, latency model and trace a figure comes from, one line."""
    engine = results.provenance.get("engine") or {}
    model = " ".join(str(engine[k]) for k in ("engine", "version", "device") if engine.get(k))
    digest = str(results.provenance.get("trace_digest", ""))[:12]
    date = str(results.provenance.get("date", ""))[:10]
    return f"run {results.study} of {date} · latency model {model or 'unknown'} · trace {digest}"


def finish(figure: go.Figure, source: str, *, height: int = 420) -> go.Figure:
    """`figure` with its source below it, the legend above it, and room for narrow screens."""
    figure.update_layout(
        height=height,
        margin={"l": 60, "r": 20, "t": 60, "b": 90},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
        hovermode="closest",
    )
    figure.add_annotation(
        text=source.replace(" · ", "<br>", 1),  # two lines, for narrow screens
        xref="paper",
        yref="paper",
        x=0,
        y=0,
        yshift=-58,
        xanchor="left",
        yanchor="top",
        align="left",
        showarrow=False,
        font={"size": 10, "color": GREY},
    )
    return figure
