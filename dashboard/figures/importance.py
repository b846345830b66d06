"""Which settings decide each figure of a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from dashboard.figures import style
from dashboard.figures.measures import GOODPUT, ITL, TTFT

MOST_SHOWN = 10
"""settings; of fleets there are more"""
_LOOKS = ((ITL, style.BLUE, ""), (TTFT, style.ORANGE, "/"), (GOODPUT, style.GREEN, "x"))


def importance_words(found: Mapping[str, Any]) -> str:
    """Which setting decides each figure most, one sentence."""
    texts = []
    for measure, _, _ in _LOOKS:
        one = found["figures"].get(measure.column)
        if one is not None:
            best = max(
                range(len(one["shares"])), key=[s["mean"] for s in one["shares"]].__getitem__
            )
            texts.append(f"{measure.title} by {found['settings'][best]}")
    return f"Decided most: {', '.join(texts)}."


def importance_figure(found: Mapping[str, Any]) -> go.Figure:
    """Loss of R^2 when a setting's values are shuffled; the settings that matter most on top.

    Parameters
    ----------
    found
        As `derive.importance` makes it, with at least one figure.
    """
    known = {name: one for name, one in found["figures"].items() if one is not None}
    names = found["settings"]
    worth = [max(one["shares"][i]["mean"] for one in known.values()) for i in range(len(names))]
    order = sorted(range(len(names)), key=lambda i: -worth[i])[:MOST_SHOWN]
    figure = go.Figure()
    for measure, color, pattern in _LOOKS:
        one = known.get(measure.column)
        if one is None:
            continue
        figure.add_bar(
            y=[names[i] for i in order],
            x=[max(0.0, one["shares"][i]["mean"]) for i in order],
            error_x={
                "type": "data",
                "array": [one["shares"][i]["std"] for i in order],
                "color": style.GREY,
            },
            orientation="h",
            name=f"{measure.title} (R² {one['skill']:.2f})",
            marker={"color": color, "pattern": {"shape": pattern}},
            hovertemplate=f"%{{y}}, {measure.title}<br>R² lost %{{x:.2f}}<extra></extra>",
        )
    figure.update_xaxes(title="R² lost when the setting is shuffled", rangemode="tozero")
    figure.update_yaxes(autorange="reversed", automargin=True)
    return figure
