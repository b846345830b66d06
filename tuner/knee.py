"""The knee of a front: a good compromise between its ends."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def knee(costs: npt.NDArray[np.float64]) -> int:
    """Index of the point nearest to the ideal one, each column scaled to the front's own range.

    Parameters
    ----------
    costs
        (N, K) every column to be minimised, N at least 1.
    """
    low, span = costs.min(axis=0), np.ptp(costs, axis=0)
    scaled = (costs - low) / np.where(span > 0, span, 1.0)
    return int(np.argmin((scaled**2).sum(axis=1)))
