"""Equal spans of time."""

from __future__ import annotations

import numpy as np

from tuner.spans import spans


def test_spans_that_hold_something() -> None:
    middles, starts = spans(np.array([0.0, 0.1, 5.0, 9.9, 10.0]), 10)
    assert list(middles) == [0.5, 5.5, 9.5]
    assert list(starts) == [0, 2, 3]


def test_a_single_time() -> None:
    middles, starts = spans(np.array([4.0]), 10)
    assert list(starts) == [0] and abs(middles[0] - 4.0) < 1e-8
