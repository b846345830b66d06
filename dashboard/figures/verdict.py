"""A verdict as figures: maps, headroom, P:D over time; from `judgement_dict`'s plain data. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from dashboard.figures import style
from tuner.verdict.figures import LEAST_RANGE, SCALE, axis_labels, cell_text, own_index, short
from tuner.verdict.margin import leader

_LETTERS = {"aggregated": "A", "disaggregated": "S", "tie": "="}
"""verdict -> letter of a cell"""
_SIDES = {
    "aggregated": ("aggregated", "#b35806", "circle"),
    "disaggregated": ("split", "#542788", "diamond"),
}
"""side -> word, colour (those of the map), symbol"""


def map_figure(plain: Mapping[str, Any], one: Mapping[str, Any]) -> go.Figure:
    """One map of a verdict: who is ahead by how many per cent, a letter for who.

    Parameters
    ----------
    plain
        Of `judgement_dict`.
    one
        One of its maps.
    """
    x_axis, y_axis = (plain["axes"][one[name]] for name in ("x", "y"))
    x, y = labels_of(x_axis), labels_of(y_axis)
    most = max([LEAST_RANGE, *(abs(m) for row in one["margin"] for m in row)])
    figure = go.Figure()
    figure.add_heatmap(
        x=x,
        y=y,
        z=[[100 * margin for margin in row] for row in one["margin"]],
        text=[[letter(cell) for cell in row] for row in one["cells"]],
        texttemplate="%{text}",
        customdata=[[cell_text(cell) for cell in row] for row in one["cells"]],
        hovertemplate="%{customdata}<extra></extra>",
        colorscale=SCALE,
        zmin=-100 * most,
        zmax=100 * most,
        showscale=False,
        xgap=2,
        ygap=2,
    )
    column, row = own_index(x_axis), own_index(y_axis)
    figure.add_shape(
        type="rect",
        x0=column - 0.5,
        x1=column + 0.5,
        y0=row - 0.5,
        y1=row + 0.5,
        line={"color": style.VERMILION, "width": 3},
    )
    figure.update_xaxes(title={"text": x_axis["unit"], "standoff": 4}, tickangle=0)
    figure.update_xaxes(type="category", showgrid=False)
    figure.update_yaxes(title=y_axis["unit"], type="category", showgrid=False)
    return figure


def labels_of(axis: Mapping[str, Any]) -> list[str]:
    """The values in short; with their factors where two look alike, which would be one column."""
    plain = [short(value) for value in axis["values"]]
    return plain if len(set(plain)) == len(plain) else axis_labels(axis)


def letter(cell: Mapping[str, Any]) -> str:
    """What a cell says: A 12, S 5, = (less than a tie), with ✕ where neither meets the SLOs."""
    ahead = leader(cell["margin"])
    size = "" if ahead == "tie" else f" {100 * abs(cell['margin']):.0f}"
    return f"{_LETTERS[ahead]}{size}{' ✕' if cell['neither_meets_slo'] else ''}"


def headroom_figure(plain: Mapping[str, Any]) -> go.Figure:
    """The highest arrival rate at which each side still meets the SLOs, beside the traffic's."""
    figure = go.Figure()
    own = plain["axes"]["load"]["own"]
    rates = [own]
    for side, (word, color, symbol) in _SIDES.items():
        room = plain[side]["headroom"]
        rate = room["highest_rps"]
        if rate is None:
            continue
        rates.append(rate)
        figure.add_scatter(
            x=[rate],
            y=[word],
            mode="markers+text",
            text=[f"{'' if room['bounded'] else '≥ '}{short(rate)}"],
            textposition="top center",
            cliponaxis=False,
            marker={"symbol": symbol, "size": 14, "color": color},
            name=word,
            showlegend=False,
            hovertemplate="%{y}: %{x:,.4~r} requests/s<extra></extra>",
        )
    figure.add_vline(
        x=own,
        line={"dash": "dash", "color": style.GREY},
        annotation_text=f"this traffic, {short(own)}",
        annotation_position="bottom right",
    )
    figure.update_xaxes(title="highest arrival rate within the SLOs, requests/s")
    figure.update_xaxes(range=[0, 1.15 * max(rates)])
    words = [word for word, _, _ in _SIDES.values()][::-1]
    figure.update_yaxes(type="category", categoryorder="array", categoryarray=words)
    figure.update_yaxes(range=[-0.6, 1.6])
    return figure


def regimes_figure(regimes: Mapping[str, Any]) -> go.Figure:
    """Goodput of every P:D in each regime as a share of the best one there; the plan over it.

    Parameters
    ----------
    regimes
        `regimes` of `judgement_dict`.
    """
    rows = regimes["stretches"]
    ratios = list(rows[0]["by_ratio"])
    x = [f"{row['start_s']:,.0f} s" for row in rows]
    z, text = [], []
    for ratio in ratios:
        shares = [_share(row, ratio) for row in rows]
        z.append(shares)
        text.append([f"{'★' if r['planned'] == ratio else ''}" for r in rows])
    figure = go.Figure()
    figure.add_heatmap(
        x=x,
        y=[_ratio(ratio) for ratio in ratios],
        z=z,
        text=text,
        texttemplate="%{text}",
        customdata=[[row["by_ratio"][ratio] for row in rows] for ratio in ratios],
        hovertemplate="from %{x}, %{y}: %{customdata:.3g} good requests/s and GPU, "
        "%{z:.0f} % of the best<extra></extra>",
        colorscale="Cividis",
        zmin=0,
        zmax=100,
        colorbar={"thickness": 8, "ticksuffix": " %"},
        xgap=2,
        ygap=1,
    )
    marker = {"symbol": "star", "size": 9, "color": style.GREY}
    figure.add_scatter(x=[None], y=[None], mode="markers", marker=marker, name="planned")
    figure.update_xaxes(title={"text": "regime of the traffic, from", "standoff": 4})
    figure.update_xaxes(type="category")
    figure.update_yaxes(title="prefill : decode", type="category")
    return figure


def _share(row: Mapping[str, Any], ratio: str) -> float:
    best = max(row["by_ratio"].values())
    return 100 * row["by_ratio"][ratio] / best if best > 0 else 0.0


def _ratio(ratio: str) -> str:
    """ "11:5" as a word that no browser takes for a time."""
    prefill, decode = ratio.split(":")
    return f"{prefill}P:{decode}D"
