"""Frames to figures. Pure: nothing here knows Streamlit or files."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from tuner.candidate import Evidence

_TRIAL_LOOK = {
    "infeasible": {"color": "#b0b0b0", "size": 6, "symbol": "circle-open"},
    "feasible": {"color": "#4c78a8", "size": 7, "symbol": "circle"},
    "on the front": {"color": "#f58518", "size": 10, "symbol": "diamond"},
}
_ROLE_COLOR = {"engine default": "#e45756", "recommended": "#54a24b", "candidate": "#72b7b2"}


def front_figure(
    trials: pd.DataFrame, confirmed: pd.DataFrame, limits: Mapping[str, float]
) -> go.Figure:
    """ITL p99 against TTFT p99, milliseconds: trials predicted, candidates measured over them.

    Parameters
    ----------
    trials
        Columns itl_p99_s, ttft_p99_s, kind, settings.
    confirmed
        Columns candidate, role, source, itl_p99_s, ttft_p99_s; may be empty.
    limits
        `ttft_p99_s` and `itl_p99_s`, where there are such SLOs; seconds.
    """
    figure = go.Figure()
    for kind, look in _TRIAL_LOOK.items():
        rows = trials[trials["kind"] == kind]
        figure.add_scatter(
            x=1e3 * rows["itl_p99_s"],
            y=1e3 * rows["ttft_p99_s"],
            mode="markers",
            name=f"predicted, {kind}",
            marker=look,
            text=rows["settings"],
        )
    if not confirmed.empty:
        _add_confirmed(figure, confirmed)
    if "itl_p99_s" in limits:
        figure.add_vline(x=1e3 * limits["itl_p99_s"], line_dash="dash", annotation_text="ITL SLO")
    if "ttft_p99_s" in limits:
        figure.add_hline(y=1e3 * limits["ttft_p99_s"], line_dash="dash", annotation_text="TTFT SLO")
    figure.update_layout(xaxis_title="ITL p99, ms", yaxis_title="TTFT p99, ms")
    return figure


def _add_confirmed(figure: go.Figure, confirmed: pd.DataFrame) -> None:
    """A line from predicted to measured (or rehearsed) for each candidate, ending in a star."""
    for candidate, rows in confirmed.groupby("candidate", sort=False):
        pair = rows[rows["source"].isin(["predicted", *(e.value for e in Evidence)])]
        seen = str(pair["source"].iloc[-1])
        role = str(rows["role"].iloc[0])
        figure.add_scatter(
            x=1e3 * pair["itl_p99_s"],
            y=1e3 * pair["ttft_p99_s"],
            mode="lines+markers",
            name=f"{candidate} ({role}), {seen}" if role != candidate else f"{role}, {seen}",
            line={"color": _ROLE_COLOR[role], "dash": "dot"},
            marker={
                "symbol": ["circle" if s == "predicted" else "star" for s in pair["source"]],
                "size": [7 if s == "predicted" else 14 for s in pair["source"]],
                "color": _ROLE_COLOR[role],
            },
            text=pair["source"],
        )
