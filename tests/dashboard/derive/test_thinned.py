"""Thinning keeps what matters."""

from __future__ import annotations

import numpy as np

from dashboard.derive.thinned import EXTREMES, thinned


def test_few_points_all_stay() -> None:
    assert thinned((np.arange(5.0),), 5).tolist() == [0, 1, 2, 3, 4]


def test_many_points_are_thinned_to_the_number_with_the_extremes_of_every_coordinate() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=50_000), rng.normal(size=50_000)
    kept = thinned((x, y), 1000)
    assert kept.size == 1000
    assert np.all(np.diff(kept) > 0)
    for values in (x, y):
        ends = np.sort(values)
        assert set(ends[:EXTREMES]) | set(ends[-EXTREMES:]) <= set(values[kept])
    assert kept.tolist() == thinned((x, y), 1000).tolist(), "the same every time"


def test_the_rest_shows_the_density() -> None:
    x = np.concatenate([np.zeros(9000), np.ones(1000)])
    assert 0.07 < float(x[thinned((x,), 2000)].mean()) < 0.15
