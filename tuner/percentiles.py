"""Percentiles and means as the metrics take them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def weighted_percentiles(
    values: FloatArray, weights: IntArray, percents: Sequence[float]
) -> list[float]:
    """For each percent the smallest value that at least so much of the weight does not exceed.

    The inverted empirical distribution function (Hyndman & Fan 1996, definition 1): equal to
    `numpy.percentile(numpy.repeat(values, weights), percents, method="inverted_cdf")`.

    Parameters
    ----------
    values, weights
        (G,) each; weights are counts, not negative.
    percents
        (P,) from 0 to 100.

    Returns
    -------
    (P,) NaNs when the total weight is 0.
    """
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    if reached.size == 0 or reached[-1] == 0:
        return [math.nan] * len(percents)
    wanted = [math.ceil(round(percent / 100 * int(reached[-1]), 9)) for percent in percents]
    found = values[order[np.searchsorted(reached, np.maximum(wanted, 1))]]
    return [float(value) for value in found]


def percentile(values: FloatArray, percent: float) -> float:
    """NaN of nothing; infinite when it reaches into values that are."""
    if values.size == 0:
        return math.nan
    rank = math.ceil(round(percent / 100 * (values.size - 1), 9))
    if rank >= np.isfinite(values).sum():
        return math.inf
    return float(np.percentile(values, percent))


def finite_mean(values: FloatArray) -> float:
    """Of the finite ones; NaN when there are none."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else math.nan
