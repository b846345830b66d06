"""Margin and probability against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from tuner.verdict.margin import compare, leader, margin, probability


def slow_probability(aggregated: list[float], disaggregated: list[float]) -> float:
    """Count the windows, one by one."""
    ahead = disaggregated if disaggregated[0] > aggregated[0] else aggregated
    behind = aggregated if ahead is disaggregated else disaggregated
    if aggregated[0] == disaggregated[0]:
        return 0.5
    won = 0.0
    for a, b in zip(ahead, behind, strict=True):
        won += 1.0 if a > b else 0.5 if a == b else 0.0
    return won / len(ahead)


@pytest.mark.parametrize("seed", range(30))
def test_probability_is_the_share_of_windows_won(seed: int) -> None:
    rng = np.random.default_rng(seed)
    num = int(rng.integers(2, 12))
    a, d = (rng.integers(0, 4, num).astype(float).tolist() for _ in range(2))
    found = compare(a, d)
    assert found.probability == pytest.approx(slow_probability(a, d))
    assert found.windows == num
    assert found.margin == margin(a[0], d[0])


def test_margin_is_symmetric_and_bounded() -> None:
    rng = np.random.default_rng(1)
    for a, d in rng.exponential(size=(50, 2)):
        assert margin(a, d) == -margin(d, a)
        assert -1 < margin(a, d) < 1
    assert margin(0.0, 0.0) == 0.0
    assert margin(0.0, 2.0) == 1.0
    assert margin(2.0, 0.0) == -1.0
    assert margin(2.0, 3.0) == pytest.approx(1 / 3)


def test_interval_is_the_cheap_bootstrap() -> None:
    a, d = [1.0, 1.1, 0.9, 1.0], [1.2, 1.2, 1.2, 1.5]
    margins = [(y - x) / max(x, y) for x, y in zip(a, d, strict=True)]
    spread = np.sqrt(np.mean([(m - margins[0]) ** 2 for m in margins[1:]]))
    half = t.ppf(0.95, 3) * spread
    found = compare(a, d)
    assert found.interval == pytest.approx((margins[0] - half, margins[0] + half))
    assert found.verdict == "disaggregated"


def test_verdict_needs_a_margin_and_a_chance() -> None:
    assert compare([1.0] * 8, [1.005] * 8).verdict == "tie"
    assert compare([1.0] * 8, [1.2] * 8).verdict == "disaggregated"
    assert compare([1.2] * 8, [1.0] * 8).verdict == "aggregated"
    unsure = compare([1.0] * 8, [1.2] * 4 + [0.8] * 4)
    assert (unsure.verdict, unsure.probability) == ("tie", 0.5)


def test_one_window_has_no_chance() -> None:
    found = compare([1.0], [2.0])
    assert (found.probability, found.interval, found.verdict) == (None, None, "disaggregated")


def test_common_random_numbers_cancel() -> None:
    """What moves both sides alike does not make the verdict doubtful."""
    rng = np.random.default_rng(0)
    level = rng.uniform(0.5, 2.0, 16)
    found = compare(level.tolist(), (1.05 * level).tolist())
    assert found.probability == 1.0
    assert found.interval == pytest.approx((found.margin, found.margin))


def test_leader() -> None:
    assert [leader(m) for m in (-0.02, -0.009, 0.0, 0.009, 0.02)] == [
        "aggregated",
        "tie",
        "tie",
        "tie",
        "disaggregated",
    ]


def test_probability_of_no_lead() -> None:
    assert probability([0.0, 0.3, 0.3]) == 0.5
