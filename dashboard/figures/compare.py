"""Two studies in one figure. Pure: nothing here knows Streamlit or files."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from dashboard.figures.digits import is_wide
from dashboard.figures.style import DASHES, SERIES, SYMBOLS


def fronts_figure(
    fronts: Mapping[str, pd.DataFrame], chosen: Mapping[str, int | None]
) -> go.Figure:
    """The front of each study: ITL p99 against TTFT p99, milliseconds, predicted.

    Parameters
    ----------
    fronts
        Study -> rows of its front: number, itl_p99_s, ttft_p99_s, goodput_rps, settings.
    chosen
        Study -> number of the trial it recommends, drawn larger; None where it is not on the front.
    """
    figure = go.Figure()
    for index, (name, rows) in enumerate(fronts.items()):
        rows = rows.dropna(subset=["itl_p99_s", "ttft_p99_s"]).sort_values("itl_p99_s")
        best = rows["number"] == chosen.get(name)
        figure.add_scatter(
            x=1e3 * rows["itl_p99_s"],
            y=1e3 * rows["ttft_p99_s"],
            mode="lines+markers",
            name=name,
            line={"color": SERIES[index], "dash": DASHES[index], "width": 1.5},
            marker={"symbol": SYMBOLS[index], "size": [16 if b else 8 for b in best]},
            customdata=rows[["number", "goodput_rps", "settings"]],
            hovertemplate="trial %{customdata[0]}: ITL p99 %{x:,.3~r} ms, TTFT p99 %{y:,.3~r} ms, "
            "goodput %{customdata[1]:,.3~r} requests/s<br>%{customdata[2]}",
        )
    every = pd.concat(list(fronts.values())) if fronts else pd.DataFrame()
    for axis, column in (("xaxis", "itl_p99_s"), ("yaxis", "ttft_p99_s")):
        name = "ITL" if axis == "xaxis" else "TTFT"
        kind = "log" if column in every and is_wide(every[column]) else "linear"
        figure.update_layout({axis: {"title": f"{name} p99, ms", "type": kind}})
    return figure
