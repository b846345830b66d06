"""Pools of a fleet: which P:D was found how good, and what its replicas do. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dashboard.figures import style
from dashboard.figures.digits import digits, latency

RECOMMENDED, MISSES, LOOKED_AT = "★", "✕", "◆"
"""marks of the cells of a map"""
SCALE = "Cividis"
"""sequential, made for deficient colour vision (Nunez et al., PLOS ONE 2018)"""
_ROLES = {
    "aggregated": (style.GREEN, "solid", "circle"),
    "prefill": (style.BLUE, "solid", "square"),
    "decode": (style.VERMILION, "dash", "diamond"),
}
_LONG_S = 600.0


def ratio_map(cells: pd.DataFrame, *, fewest: bool, chosen: Mapping[str, Any]) -> go.Figure:
    """Numbers of prefill (across) and decode replicas (up), each cell the best trial with them.

    Parameters
    ----------
    cells
        One row per pair: prefill, decode, per_gpu, gpus, feasible, recommended, settings, and the
        columns that the hover text names (`fleet_frames.trial_fleets`).
    fewest
        The search is for the fewest GPUs: cells show these instead of goodput per GPU.
    chosen
        Settings of the point that is looked at.
    """
    across = sorted(cells["prefill"].unique().tolist())
    up = sorted(cells["decode"].unique().tolist())
    z: list[list[float | None]] = [[None] * len(across) for _ in up]
    text = [[""] * len(across) for _ in up]
    hover = [[""] * len(across) for _ in up]
    for row in cells.to_dict("records"):
        i, j = up.index(row["decode"]), across.index(row["prefill"])
        z[i][j] = row["gpus"] if fewest else row["per_gpu"]
        shown = f"{row['gpus']}" if fewest else short(row["per_gpu"])
        marks = _marks(row, chosen)
        text[i][j] = f"{shown}<br>{marks}" if marks else shown
        hover[i][j] = _hover(row)
    figure = go.Figure()
    figure.add_heatmap(
        x=[str(p) for p in across],
        y=[str(d) for d in up],
        z=z,
        text=text,
        texttemplate="%{text}",
        customdata=hover,
        hovertemplate="%{customdata}<extra></extra>",
        hoverongaps=False,
        colorscale=SCALE,
        reversescale=fewest,
        colorbar={"thickness": 8},
        xgap=2,
        ygap=2,
    )
    _explain_marks(figure)
    figure.update_xaxes(type="category", showgrid=False, title=_title("prefill replicas"))
    figure.update_yaxes(title="decode replicas", type="category", showgrid=False)
    return figure


def short(value: float) -> str:
    """Three characters or so, for cells that are narrow on small screens."""
    return "<0.1" if 0 < value < 0.1 else f"{value:.3g}" if value >= 10 else f"{value:.2g}"


def _marks(row: Mapping[Any, Any], chosen: Mapping[Any, Any]) -> str:
    marks = RECOMMENDED if row["recommended"] else ""
    if row["settings"] == chosen and not row["recommended"]:
        marks += LOOKED_AT
    return marks + ("" if row["feasible"] else MISSES)


def _hover(row: Mapping[Any, Any]) -> str:
    rules = " / ".join(filter(None, (row["router"], row["decode_router"])))
    met = "meets the SLOs" if row["feasible"] else "misses an SLO"
    return (
        f"trial {row['number']}: {row['kind']}, {row['gpus']} GPUs<br>"
        f"{digits(row['per_gpu'])} good requests/s and GPU, {met}<br>"
        f"TTFT p99 {latency(row['ttft_p99_s'])}, ITL p99 {latency(row['itl_p99_s'])}<br>"
        f"router {rules}"
    )


def _title(text: str) -> dict[str, Any]:
    """Of an axis of categories: near to it, above the figure's source."""
    return {"text": text, "standoff": 4}


def _explain_marks(figure: go.Figure) -> None:
    """The marks in the legend, so that the picture says by itself what they are."""
    looks = (("star", "recommended"), ("diamond", "looked at"), ("x-thin-open", "misses an SLO"))
    for symbol, name in looks:
        marker = {"symbol": symbol, "size": 9, "color": style.GREY}
        figure.add_scatter(x=[None], y=[None], mode="markers", marker=marker, name=name)


def kinds_figure(best: pd.DataFrame) -> go.Figure:
    """Goodput per GPU of the best trial of each kind of fleet, and of the engine default.

    Parameters
    ----------
    best
        kind, per_gpu, feasible, recommended, default, and what the hover text names.
    """
    figure = go.Figure()
    looks = (
        (True, "meets the SLOs", {"symbol": "circle", "size": 11, "color": style.BLUE}),
        (False, "misses an SLO", {"symbol": "x", "size": 10, "color": style.VERMILION}),
    )
    ordered = best.sort_values("per_gpu")
    labels = [_label(row) for row in ordered.to_dict("records")]
    for feasible, name, look in looks:
        mask = (ordered["feasible"] == feasible).tolist()
        rows = ordered[ordered["feasible"] == feasible]
        figure.add_scatter(
            x=rows["per_gpu"],
            y=[label for label, kept in zip(labels, mask, strict=True) if kept],
            mode="markers+text",
            text=[digits(value) for value in rows["per_gpu"]],
            textposition="middle right",
            cliponaxis=False,
            customdata=[_hover(row) for row in rows.to_dict("records")],
            hovertemplate="%{customdata}<extra></extra>",
            marker=look,
            name=name,
        )
    most = float(ordered["per_gpu"].max()) if len(ordered) else 1.0
    figure.update_xaxes(title="good requests/s per GPU", range=[0, 1.15 * max(most, 1e-9)])
    figure.update_yaxes(
        type="category", categoryorder="array", categoryarray=labels, automargin=True
    )
    return figure


def _label(row: Mapping[Any, Any]) -> str:
    mark = f"{RECOMMENDED} " if row["recommended"] else ""
    kind = str(row["kind"]).replace(", ", "<br>")
    return f"{mark}engine default,<br>{kind}" if row["default"] else f"{mark}{kind}"


def shares_figure(pools: Mapping[str, Mapping[str, Any]]) -> go.Figure:
    """Requests of each replica against its pool's mean, per cent; and where there are, tokens.

    Parameters
    ----------
    pools
        role -> `requests` (R,), perhaps `tokens` (R,); of `pool_use` or `Candidate.use`.
    """
    figure = make_subplots(rows=len(pools), cols=1)
    for place, (role, use) in enumerate(pools.items(), start=1):
        color, _, symbol = _ROLES[role]
        for name, values in (("requests", use["requests"]), ("tokens", use.get("tokens", ()))):
            mean = sum(values) / len(values) if values else 0
            if not mean:
                continue
            tokens = name == "tokens"
            figure.add_scatter(
                x=list(range(1, len(values) + 1)),
                y=[100 * value / mean for value in values],
                customdata=values,
                hovertemplate=f"replica %{{x}}: %{{customdata:,}} {name}, %{{y:.0f}} %"
                "<extra></extra>",
                mode="markers",
                marker={
                    "symbol": f"{symbol}-open" if tokens else symbol,
                    "size": 11 if tokens else 8,
                    "color": style.GREY if tokens else color,
                },
                name=("tokens (open)" if tokens else "requests (filled)"),
                legendgroup=name,
                showlegend=place == 1,
                row=place,
                col=1,
            )
        figure.add_hline(y=100, line={"dash": "dot", "width": 1, "color": style.GREY}, row=place)
        figure.update_yaxes(title=f"{role}: % of the mean", rangemode="tozero", row=place, col=1)
        figure.update_xaxes(title=f"{role} replica", row=place, col=1)
    return figure


def progress_figure(use: Mapping[str, Any]) -> go.Figure:
    """Requests in progress on a replica over time, by pool: mean, and from the least to the most.

    Parameters
    ----------
    use
        Of `pool_use`.
    """
    pools, time_s = use["pools"], use["time_s"]
    in_minutes = time_s[-1] > _LONG_S
    x = [t / 60 for t in time_s] if in_minutes else time_s
    figure = make_subplots(rows=len(pools), cols=1, shared_xaxes=True)
    for place, (role, one) in enumerate(pools.items(), start=1):
        color, dash, _ = _ROLES[role]
        band = {"line": {"width": 0}, "hoverinfo": "skip", "legendgroup": "band", "mode": "lines"}
        figure.add_scatter(x=x, y=one["least"], showlegend=False, **band, row=place, col=1)
        figure.add_scatter(
            x=x,
            y=one["most"],
            fill="tonexty",
            fillcolor="rgba(140, 140, 140, 0.35)",
            name="from the least to the most busy replica",
            showlegend=place == 1,
            **band,
            row=place,
            col=1,
        )
        figure.add_scatter(
            x=x,
            y=one["mean"],
            mode="lines",
            line={"color": color, "dash": dash, "width": 2},
            name=f"{role}, mean",
            hovertemplate="%{y:.1f} requests<extra></extra>",
            row=place,
            col=1,
        )
        figure.update_yaxes(title=f"{role}: requests", rangemode="tozero", row=place, col=1)
    unit = "minutes" if in_minutes else "seconds"
    figure.update_xaxes(title=f"time in the traffic, {unit}", row=len(pools), col=1)
    return figure
