"""The load curves of a page: the picture of `stallfree simulate --plot` in the page's colours."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from dashboard.figures.digits import digits, log_ticks
from dashboard.figures.latency import looks
from tuner.search.load_curve import LoadCurve
from tuner.search.load_figure import SHOWN, load_figure


def capacity_figure(curves: Sequence[LoadCurve], rate_rps: float) -> go.Figure:
    """Curves by name, one panel below the other, the rate of the traffic as it is marked."""
    known = looks([curve.name for curve in curves])
    colors = [known[curve.name].color for curve in curves]
    figure = load_figure(curves, colors=colors, rate_rps=rate_rps, columns=1)
    for row, (_, value) in enumerate(SHOWN[:2], start=1):
        seen = [value(p.metrics) for curve in curves for p in curve.drawn]
        some = [x for x in seen if 0 < x < math.inf]
        if some:
            figure.update_yaxes(**log_ticks(some), row=row)
    return figure.update_layout(title=None)


def headroom(curve: LoadCurve, rate_rps: float) -> str:
    """What the curve says of the traffic's rate, in words."""
    if curve.highest_rps is None:
        return f"{curve.name} meets the SLOs at no arrival rate that was tried"
    times, least = curve.highest_rps / rate_rps, "" if curve.bounded else "at least "
    many = f"{times:.1f} times" if times < 10 else f"{times:.0f} times"
    many = f"{times:.2g} times" if times < 1 else many
    return (
        f"{curve.name} meets the SLOs up to {least}{digits(curve.highest_rps)} requests/s, "
        f"{many} today's {digits(rate_rps)}"
    )
