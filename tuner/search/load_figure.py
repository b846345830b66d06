"""Load curves as a picture, for `stallfree simulate --plot` and the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from tuner.looks import BLUE, DASHES, GREEN, GREY, ORANGE, PURPLE, SKY, SYMBOLS, VERMILION
from tuner.metrics import Metrics
from tuner.search.load_curve import LoadCurve

SHOWN: tuple[tuple[str, Callable[[Metrics], float]], ...] = (
    ("TTFT p99, ms", lambda m: 1e3 * m.ttft_p99_s),
    ("ITL p99, ms", lambda m: 1e3 * m.itl_p99_s),
    ("goodput, requests/s", lambda m: m.goodput_rps),
    ("requests that meet the SLOs, %", lambda m: 100 * m.slo_attainment),
)
COLORS = (VERMILION, GREEN, BLUE, ORANGE, PURPLE, SKY)


def load_figure(
    curves: Sequence[LoadCurve],
    *,
    colors: Sequence[str] = COLORS,
    rate_rps: float | None = None,
    columns: int = 2,
) -> go.Figure:
    """TTFT p99, ITL p99, goodput and SLO attainment against the arrival rate.

    A dotted vertical line marks each highest rate that meets the SLOs, a grey one `rate_rps`, the
    rate of the traffic as it is.
    """
    rows = len(SHOWN) // columns
    titles = [label for label, _ in SHOWN]
    figure = make_subplots(rows, columns, subplot_titles=titles, vertical_spacing=0.24 / rows)
    for i, curve in enumerate(curves):
        line = {"color": colors[i % len(colors)], "dash": DASHES[i % len(DASHES)]}
        _add(figure, curve, line, columns)
        figure.update_traces(marker_symbol=SYMBOLS[i % len(SYMBOLS)], selector={"name": curve.name})
    if rate_rps is not None:
        figure.add_vline(x=rate_rps, line_color=GREY, line_width=1)
    for panel in range(2):  # the latencies
        figure.update_yaxes(type="log", row=1 + panel // columns, col=1 + panel % columns)
    figure.update_xaxes(title_text="arrival rate, requests/s", row=rows)
    figure.update_layout(title="Load curves, simulated")
    return figure


def _add(figure: go.Figure, curve: LoadCurve, line: dict[str, str], columns: int) -> None:
    """One configuration, in every panel."""
    for panel, (_, value) in enumerate(SHOWN):
        figure.add_scatter(
            x=[p.rate_rps for p in curve.drawn],
            y=[value(p.metrics) for p in curve.drawn],
            name=curve.name,
            legendgroup=curve.name,
            showlegend=panel == 0,
            mode="lines+markers",
            line=line,
            row=1 + panel // columns,
            col=1 + panel % columns,
        )
    if curve.highest_rps is not None:
        figure.add_vline(x=curve.highest_rps, line_dash="dot", line_color=line["color"])
