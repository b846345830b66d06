"""Settings and figures of many trials at once, one line per trial."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from dashboard.figures import style
from dashboard.figures.digits import digits, is_wide
from dashboard.figures.measures import CHANCE, GOODPUT, ITL, TTFT
from dashboard.tables import FRONT, MISSES, SETTING, coded, setting_columns

MOST_LINES = 800
"""more cannot be told apart, and a browser without a GPU draws them for seconds"""
MOST_SETTINGS = 7
_ROOM = 0.06
_TICKS = (1.0, 2.0, 5.0)
_SCALE = [[0.0, style.GREY], [0.499, style.GREY], [0.5, style.SKY], [0.749, style.SKY]]
_SCALE += [[0.75, style.ORANGE], [1.0, style.ORANGE]]


def thinned(trials: pd.DataFrame) -> pd.DataFrame:
    """At most `MOST_LINES` trials with all figures: the front, and of the others an even sample."""
    known = trials[trials[[ITL.column, TTFT.column]].notna().all(axis=1)]
    on_front, others = known[known["kind"] == FRONT], known[known["kind"] != FRONT]
    on_front = on_front.iloc[_evenly(len(on_front), MOST_LINES // 2)]
    return pd.concat([others.iloc[_evenly(len(others), MOST_LINES - len(on_front))], on_front])


def _evenly(count: int, most: int) -> npt.NDArray[np.int64]:
    if count <= most:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, most).astype(np.int64))


def shown_settings(trials: pd.DataFrame) -> list[str]:
    """The settings that have an axis: of fleets those that most trials have."""
    names = setting_columns(trials)
    given = {name: int(trials[name].notna().to_numpy().sum()) for name in names}
    most = sorted(names, key=lambda name: -given[name])[:MOST_SETTINGS]
    return [name for name in names if name in most]


def parallel_figure(trials: pd.DataFrame, *, by_kind: bool) -> go.Figure:
    """One line per trial over its settings and figures, coloured by goodput or by kind.

    Parameters
    ----------
    trials
        Rows of `tables.points`, as `thinned` leaves them; at least one.
    by_kind
        Grey misses an SLO, blue meets them, orange is on the front; else goodput.
    """
    dimensions = [_of_setting(trials, name) for name in shown_settings(trials)]
    figures = [ITL, TTFT, GOODPUT]
    figures += [CHANCE] if trials["chance"].notna().any() else []
    dimensions += [_dimension(m.label, m.of(trials).to_numpy()) for m in figures]
    figure = go.Figure(
        go.Parcoords(
            dimensions=dimensions,
            line=_by_kind(trials) if by_kind else _by_goodput(trials),
            labelangle=-20,
            labelfont={"size": 11},
        )
    )
    return figure


def _by_kind(trials: pd.DataFrame) -> dict[str, Any]:
    codes = trials["kind"].map(lambda kind: {MISSES: 0, FRONT: 2}.get(kind, 1))
    return {"color": codes.tolist(), "colorscale": _SCALE, "cmin": 0, "cmax": 2}


def _by_goodput(trials: pd.DataFrame) -> dict[str, Any]:
    return {
        "color": GOODPUT.of(trials).tolist(),
        "colorscale": "Cividis",
        "showscale": True,
        "colorbar": {"title": {"text": GOODPUT.label, "side": "right"}, "thickness": 10},
    }


def _of_setting(trials: pd.DataFrame, column: str) -> dict[str, Any]:
    """An axis of a setting. One that a trial does not have lies below the axis' values."""
    values, names = coded(trials[column])
    label = column.removeprefix(SETTING)
    if names is None:
        return _dimension(label, values)
    places = list(range(len(names)))
    texts = list(names)
    if np.isnan(values).any():
        places, texts = [-1, *places], ["not there", *texts]
    return {
        "label": label,
        "values": np.where(np.isnan(values), -1.0, values).tolist(),
        "tickvals": places,
        "ticktext": texts,
    }


def _dimension(label: str, values: npt.NDArray[np.float64]) -> dict[str, Any]:
    """An axis of numbers, logarithmic where they span widely; 0 and none lie below the others."""
    above = values[np.isfinite(values) & (values > 0)]
    log = is_wide(above, 8.0)
    ticks = _ticks(float(above.min()), float(above.max())) if log else None
    if ticks is None:
        least = float(np.nanmin(values, initial=math.inf))
        filled = np.where(np.isfinite(values), values, least if math.isfinite(least) else 0.0)
        return {"label": label, "values": filled.tolist()}
    bottom = math.log10(float(above.min())) - 0.3
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(np.isfinite(values) & (values > 0), np.log10(values), bottom)
    places, texts = [math.log10(t) for t in ticks], [digits(t) for t in ticks]
    if (values == 0).any():
        places, texts = [bottom, *places], ["0", *texts]
    elif np.isnan(values).any():
        places, texts = [bottom, *places], ["not there", *texts]
    return {"label": label, "values": logs.tolist(), "tickvals": places, "ticktext": texts}


def _ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10 ... from `low` to `high`, and both ends; none so near an end that words touch."""
    room = (high / low) ** _ROOM
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    inside = [
        t * 10.0**d for d in decades for t in _TICKS if low * room < t * 10.0**d < high / room
    ]
    return [low, *inside, high]
