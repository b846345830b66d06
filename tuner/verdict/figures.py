"""The map as a picture, from the plain data of `report.judgement_dict`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

SCALE = [[0.0, "#b35806"], [0.25, "#f1a340"], [0.5, "#f7f7f7"], [0.75, "#998ec3"], [1.0, "#542788"]]
"""ColorBrewer's PuOr: diverging, told apart with any colour vision (orange aggregated, purple
split)"""
LEAST_RANGE = 0.1
"""margins of less than this do not get full colours"""


def map_figure(plain: Mapping[str, Any]) -> go.Figure:
    """Margin over prompt length and load, and over link bandwidth and load.

    A star marks the study's own point, a cross a cell where neither side meets the SLOs.

    Parameters
    ----------
    plain
        Of `judgement_dict`, with a map.
    """
    maps, axes = plain["map"], plain["axes"]
    figure = make_subplots(rows=1, cols=len(maps), horizontal_spacing=0.12)
    most = max([LEAST_RANGE, *(abs(m) for one in maps for row in one["margin"] for m in row)])
    for column, one in enumerate(maps, start=1):
        _add_map(figure, column, one, axes)
    figure.update_layout(
        title=title(plain),
        coloraxis={
            "colorscale": SCALE,
            "cmin": -100 * most,
            "cmax": 100 * most,
            "colorbar": {"title": "margin, %<br>(above 0:<br>split ahead)"},
        },
        legend={"orientation": "h", "y": -0.15},
    )
    return figure


def title(plain: Mapping[str, Any]) -> str:
    """What the picture shows, in two lines."""
    each = plain["candidates"]
    return (
        f"Aggregated or split? Verdict: {plain['verdict']}, margin {100 * plain['margin']:+.1f} %"
        f"<br><sup>goodput per GPU; in each cell the best of {each['aggregated']} aggregated and "
        f"{each['disaggregated']} split candidates, {plain['requests']['map']:,} requests</sup>"
    )


def _add_map(
    figure: go.Figure, column: int, one: Mapping[str, Any], axes: Mapping[str, Any]
) -> None:
    x_axis, y_axis = axes[one["x"]], axes[one["y"]]
    x, y = axis_labels(x_axis), axis_labels(y_axis)
    place = {"row": 1, "col": column}
    figure.add_heatmap(
        x=x,
        y=y,
        z=[[100 * margin for margin in row] for row in one["margin"]],
        text=[[f"{100 * margin:+.0f}" for margin in row] for row in one["margin"]],
        texttemplate="%{text}",
        customdata=[[cell_text(cell) for cell in row] for row in one["cells"]],
        hovertemplate="%{customdata}<extra></extra>",
        coloraxis="coloraxis",
        **place,
    )
    crosses = [
        (x[j], y[i])
        for i, row in enumerate(one["cells"])
        for j, cell in enumerate(row)
        if cell["neither_meets_slo"]
    ]
    own = [(x[own_index(x_axis)], y[own_index(y_axis)])]
    first = column == 1
    _add_marks(figure, crosses, ("x-thin-open", 22, "neither meets the SLOs"), first, place)
    _add_marks(figure, own, ("star-open", 26, "the study's own point"), first, place)
    for update, axis in ((figure.update_xaxes, x_axis), (figure.update_yaxes, y_axis)):
        update(title_text=axis["unit"], type="category", **place)


def _add_marks(
    figure: go.Figure,
    points: Sequence[tuple[str, str]],
    look: tuple[str, int, str],
    legend: bool,
    place: Mapping[str, int],
) -> None:
    symbol, size, name = look
    figure.add_scatter(
        x=[x for x, _ in points],
        y=[y for _, y in points],
        mode="markers",
        marker={"symbol": symbol, "size": size, "color": "black", "line": {"width": 1}},
        name=name,
        legendgroup=name,
        showlegend=legend and bool(points),
        hoverinfo="skip",
        **place,
    )


def own_index(axis: Mapping[str, Any]) -> int:
    """Where the study's own value is among the axis' values."""
    index: int = axis["factors"].index(1.0)
    return index


def axis_labels(axis: Mapping[str, Any], separator: str = "<br>") -> list[str]:
    """The values, three digits, each with its factor (which no other has)."""
    pairs = zip(axis["values"], axis["factors"], strict=True)
    return [f"{short(value)}{separator}x{factor:.3g}" for value, factor in pairs]


def short(value: float) -> str:
    """Three digits, or all of a large number's."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def cell_text(cell: Mapping[str, Any]) -> str:
    """What a cell says when it is pointed at."""
    lines = [f"margin {100 * cell['margin']:+.1f} %"]
    for side in ("aggregated", "disaggregated"):
        pick = cell[side]
        ratio = f" ({pick['ratio']})" if pick["ratio"] else ""
        lines.append(
            f"{side}: {pick['goodput_per_gpu_rps']:.3g} good requests/s and GPU, "
            f"{100 * pick['slo_attainment']:.1f} % good, {pick['option']}{ratio}"
        )
    return "<br>".join(lines)
