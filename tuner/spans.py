"""Equal spans of time, for charts of what has too many steps to be drawn one by one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def spans(time: FloatArray, most: int) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """(middle, first index) of each of `most` equal spans that holds any of `time`.

    Parameters
    ----------
    time
        (S,) ascending, S at least 1.
    """
    span = max(float(time[-1] - time[0]), 1e-9)
    place = np.minimum((time - time[0]) / span * most, most - 1).astype(np.int64)
    some, starts = np.unique(place, return_index=True)
    return time[0] + (some + 0.5) * span / most, starts.astype(np.int64)
