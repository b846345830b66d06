"""Trials that are near another one. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from dashboard.figures.digits import is_wide
from dashboard.tables import FRONT, coded


def nearest(trials: pd.DataFrame, number: int, columns: Sequence[str], most: int = 3) -> list[int]:
    """Numbers of the trials on the front nearest to trial `number` in `columns`, nearest first.

    Distance is Euclid's with every column brought to 0 .. 1 over the trials (its logarithm where
    it spans widely); two values that are no numbers are 1 apart where they differ, and so are one
    that is there and one that is not.
    """
    here = np.flatnonzero(trials["number"].to_numpy() == number)
    if not len(here) or not columns:
        return []
    apart = sum(_apart(trials[name], int(here[0])) for name in columns)
    order = np.argsort(np.asarray(apart), kind="stable")
    kept = (trials["kind"] == FRONT).to_numpy() & (trials["number"] != number).to_numpy()
    return [int(n) for n in trials["number"].to_numpy()[order][kept[order]][:most]]


def _apart(values: pd.Series, here: int) -> npt.NDArray[np.float64]:
    """(N,) squared distance of each value to that of the row `here`, at most 1."""
    codes, names = coded(values)
    missing = np.isnan(codes)
    if names is not None:
        differs: npt.NDArray[np.bool_] = (codes != codes[here]) & ~(missing & missing[here])
        return differs.astype(np.float64)
    if is_wide(codes):
        codes = np.log(codes)
    spread = float(np.nanmax(codes) - np.nanmin(codes)) if not missing.all() else 0.0
    away = np.abs(codes - codes[here]) / (spread or 1.0)
    away = np.where(missing & missing[here], 0.0, np.where(missing | missing[here], 1.0, away))
    squared: npt.NDArray[np.float64] = away**2
    return squared
