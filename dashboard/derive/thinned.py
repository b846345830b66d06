"""Fewer points for a figure, without losing its extremes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

EXTREMES = 20
"""kept at either end of every coordinate"""


def thinned(coordinates: Sequence[FloatArray | IntArray], most: int) -> IntArray:
    """Index of at most `most` of N points, ascending: those with the least and greatest value of
    each coordinate, and of the rest a random choice (always the same), so that density shows.

    Parameters
    ----------
    coordinates
        (N,) each.
    """
    num = coordinates[0].size
    if num <= most:
        return np.arange(num)
    ends = min(EXTREMES, most // (4 * len(coordinates)))
    kept = {0, num - 1}
    for values in coordinates:
        order = np.argsort(values, kind="stable")
        kept.update(order[:ends].tolist(), order[num - ends :].tolist())
    rest = np.setdiff1d(np.arange(num), np.array(sorted(kept)))
    drawn = np.random.default_rng(0).choice(rest, most - len(kept), replace=False)
    return np.sort(np.concatenate([np.array(sorted(kept)), drawn])).astype(np.int64)
