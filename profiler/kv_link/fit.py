"""latency + bytes / bandwidth from timed transfers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
LEAST_LATENCY_S = 1e-6
"""a link must have some"""


def fit_link(size_bytes: FloatArray, seconds: FloatArray) -> tuple[float, float]:
    """Latency in seconds and bandwidth in bytes per second that the sizes agree on best.

    Of all lines through two of the sizes, or through one at the least latency, the one with the
    least sum of |log(fitted / measured)| over the sizes. Robust, because sizes that do not fit (a
    cache, another protocol) do not bend the line of the others; in ratios, because otherwise only
    the largest size would count; of their logarithm, because a line that is ten times too fast is
    as wrong as one that is ten times too slow.

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
        lines.append((float(seconds[i] - slope * size_bytes[i]), float(slope)))
    legal = [(a, s) for a, s in lines if a >= LEAST_LATENCY_S and s > 0.0]

    def error(line: tuple[float, float]) -> float:
        return float(np.abs(np.log((line[0] + line[1] * size_bytes) / seconds)).sum())

    latency_s, slope = min(legal, key=error)
    return latency_s, 1.0 / slope
