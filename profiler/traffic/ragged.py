"""Ragged arrays: values of request i are values[offsets[i]:offsets[i + 1]]."""

from __future__ import annotations

import numpy as np

from profiler.traffic.checks import IntArray


def take_segments(
    values: IntArray, offsets: IntArray, index: IntArray
) -> tuple[IntArray, IntArray]:
    """Segments `index` of a ragged array, in that order, as new (values, offsets)."""
    sizes = np.diff(offsets)[index]
    taken = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    within = np.arange(taken[-1]) - np.repeat(taken[:-1], sizes)
    return values[np.repeat(offsets[:-1][index], sizes) + within], taken


def cut_segments(values: IntArray, offsets: IntArray, most: IntArray) -> tuple[IntArray, IntArray]:
    """Keep at most `most[i]` leading values of segment i of a ragged array."""
    within = np.arange(len(values)) - np.repeat(offsets[:-1], np.diff(offsets))
    kept = np.minimum(np.diff(offsets), most)
    keep = within < np.repeat(kept, np.diff(offsets))
    return values[keep], np.concatenate(([0], np.cumsum(kept))).astype(np.int64)
