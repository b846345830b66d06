"""The front against its obvious twin, and who is picked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fake_problem import metrics

from tuner.search.pareto import Trial, front, pick, rank


def trial(number: int, ttft: float, itl: float, goodput: float) -> Trial:
    return Trial(number, {"max_num_seqs": number + 1}, metrics(ttft, itl, goodput))


def dominates(a: Trial, b: Trial) -> bool:
    """The definition, word for word."""
    x, y = a.metrics, b.metrics
    assert x is not None and y is not None
    pairs = [
        (x.ttft_p99_s, y.ttft_p99_s),
        (x.itl_p99_s, y.itl_p99_s),
        (-x.goodput_rps, -y.goodput_rps),
    ]
    return all(p <= q for p, q in pairs) and any(p < q for p, q in pairs)


@pytest.mark.parametrize("seed", range(20))
def test_front_equals_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    trials = [
        trial(i, rng.integers(1, 30) / 20, rng.integers(1, 30) / 200, rng.integers(1, 5))
        for i in range(int(rng.integers(1, 30)))
    ]
    pool = [t for t in trials if t.feasible] or trials
    expected = [t for t in pool if not any(dominates(o, t) for o in pool)]
    assert front(trials) == expected


def test_front_of_nothing_is_empty() -> None:
    assert front([Trial(0, {}, None, "refused")]) == []


def test_rank_prefers_goodput_then_margin_then_the_least_miss() -> None:
    found = rank(
        [
            metrics(0.9, 0.09, 4.00),  # 0: same goodput as 1 within 1 %, less margin
            metrics(0.5, 0.05, 3.99),  # 1
            metrics(0.2, 0.02, 3.50),  # 2: margin, but less goodput
            metrics(1.5, 0.05, 9.00),  # 3: misses by 50 %
            metrics(1.1, 0.05, 1.00),  # 4: misses by 10 %
        ]
    )
    assert found == [1, 0, 2, 4, 3]


def test_rank_prefers_what_is_likely_to_meet() -> None:
    found = rank(
        [
            replace(metrics(0.5, 0.05, 9.0), chance={"all": 0.625}),  # 0: most goodput, unlikely
            replace(metrics(0.9, 0.09, 4.0), chance={"all": 0.75}),  # 1: same goodput as 2
            replace(metrics(0.5, 0.05, 4.0), chance={"all": 1.0}),  # 2
            replace(metrics(0.5, 0.05, 8.0), chance={"all": 0.5}),  # 3
            replace(metrics(1.1, 0.05, 9.9), chance={"all": 0.875}),  # 4: misses by 10 %
        ]
    )
    assert found == [2, 1, 0, 3, 4]


def test_pick_takes_distinct_trials_and_not_the_default() -> None:
    default = Trial(0, {}, metrics(0.1, 0.01, 9.0))
    again = Trial(1, {}, metrics(0.1, 0.01, 9.0))
    first = trial(2, 0.5, 0.05, 4.0)
    twin = Trial(3, first.settings, first.metrics)
    other = trial(4, 0.9, 0.01, 3.0)
    refused = Trial(5, {"max_num_seqs": 9}, None, "no")
    assert pick([default, again, first, twin, other, refused], 3) == [first, other]
    assert pick([default, again], 3) == []


def test_pick_spreads_over_the_front() -> None:
    best = trial(1, 0.5, 0.05, 4.0)
    crowd = [trial(i, 0.5 + i / 1000, 0.05 + i / 1e4, 3.99) for i in range(2, 10)]
    low_itl = trial(20, 0.9, 0.01, 2.0)
    picked = pick([Trial(0, {}, None, "x"), best, *crowd, low_itl], 2)
    assert picked == [best, low_itl]


def test_pick_takes_the_closest_when_nothing_is_feasible() -> None:
    trials = [Trial(0, {}, metrics(9, 1, 0)), trial(1, 3.0, 0.05, 1.0), trial(2, 1.2, 0.05, 1.0)]
    assert pick(trials, 1) == [trials[2]]
