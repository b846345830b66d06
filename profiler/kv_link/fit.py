"""latency + bytes / bandwidth from timed transfers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
LEAST_LATENCY_S = 1e-6
"""a link must have some"""


def fit_link(size_bytes: FloatArray, seconds: FloatArray) -> tuple[float, float]:
    """Latency in seconds and bandwidth in bytes per second, for the least relative error.

    Least sum of |fitted / measured - 1| over the sizes: robust, because one size that does not fit
    (a cache, another protocol) does not bend the line, and relative, because otherwise only the
    largest size would count. The best such line goes through two of the points, or through one with
    the least latency: a linear programme in two unknowns has its optimum at a corner (Bloomfield
    and Steiger, Least Absolute Deviations, 1983), so all of them are tried.

    Parameters
    ----------
    size_bytes
        (S,) sizes, at least two different ones.
    seconds
        (S,) time of each, above 0: the median of its repetitions.
    """
    slopes = (seconds - LEAST_LATENCY_S) / size_bytes
    lines = [(LEAST_LATENCY_S, float(slope)) for slope in slopes]
    for i, j in combinations(range(size_bytes.size), 2):
        slope = (seconds[j] - seconds[i]) / (size_bytes[j] - size_bytes[i])
        lines.append((float(seconds[i] - slope * size_bytes[i]), slope))
    legal = [(a, s) for a, s in lines if a >= LEAST_LATENCY_S and s > 0.0]

    def error(line: tuple[float, float]) -> float:
        return float(np.abs((line[0] + line[1] * size_bytes) / seconds - 1.0).sum())

    latency_s, slope = min(legal, key=error)
    return latency_s, float(1.0 / slope)
