"""The plan over regimes against trying every sequence of ratios."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from profiler.traffic.regimes import Regime
from tuner.verdict.ratio_plan import FloatArray, moved_share, plan_ratios

REPLICAS = [(1, 3), (2, 2), (3, 1)]


def regimes(seconds: list[float]) -> list[Regime]:
    ends = np.cumsum(seconds).tolist()
    spans = zip([0.0, *ends], ends, strict=False)
    return [Regime(start, end, 0, 10, 1.0, 100.0, 10.0) for start, end in spans]


def slow_plan(goodput: FloatArray, seconds: list[float], switch_s: float) -> float:
    """The highest sum over every sequence."""
    best = -np.inf
    for path in product(range(len(REPLICAS)), repeat=len(seconds)):
        total = 0.0
        for r, q in enumerate(path):
            total += goodput[r, q] * seconds[r]
            if r and path[r - 1] != q:
                moved = abs(REPLICAS[q][0] - REPLICAS[path[r - 1]][0]) / 4
                total -= switch_s * moved * goodput[r, q]
        best = max(best, total)
    return best


@pytest.mark.parametrize("seed", range(20))
def test_plan_is_the_best_sequence(seed: int) -> None:
    rng = np.random.default_rng(seed)
    num = int(rng.integers(1, 5))
    goodput, seconds = rng.uniform(0, 2, (num, 3)), rng.uniform(10, 100, num).tolist()
    switch_s = float(rng.choice([0.0, 20.0, 200.0]))
    plan = plan_ratios(regimes(seconds), REPLICAS, goodput, switch_s)
    totals = [sum(goodput[r, q] * seconds[r] for r in range(num)) for q in range(3)]
    assert plan.static == int(np.argmax(totals))
    best = slow_plan(goodput, seconds, switch_s)
    assert plan.gain == pytest.approx(best / max(totals) - 1, abs=1e-12)
    assert plan.gain >= -1e-12
    if switch_s == 0:
        assert list(plan.chosen) == goodput.argmax(axis=1).tolist()


def test_a_plan_switches_only_for_a_gain() -> None:
    plan = plan_ratios(regimes([10.0, 10.0]), REPLICAS, np.ones((2, 3)), 0.0)
    assert set(plan.chosen) == {plan.static}
    assert plan.gain == 0.0
    dear = np.array([[1.0, 0.9, 0.0], [0.0, 0.9, 1.0]])
    assert plan_ratios(regimes([10.0, 10.0]), REPLICAS, dear, 0.0).gain == pytest.approx(1 / 9)
    assert set(plan_ratios(regimes([10.0, 10.0]), REPLICAS, dear, 60.0).chosen) == {1}


def test_moved_share() -> None:
    assert moved_share(REPLICAS) == pytest.approx(
        np.array([[0, 0.25, 0.5], [0.25, 0, 0.25], [0.5, 0.25, 0]])
    )


def test_plain_data() -> None:
    goodput = np.array([[1.0, 0.5, 0.0], [0.0, 0.5, 1.0]])
    plain = plan_ratios(regimes([10.0, 30.0]), REPLICAS, goodput, 0.0).to_dict()
    assert plain["static"] == "3:1"
    assert plain["gain"] == pytest.approx(40 / 30 - 1)
    assert [row["best"] for row in plain["stretches"]] == ["1:3", "3:1"]
    assert plain["stretches"][0]["by_ratio"] == {"1:3": 1.0, "2:2": 0.5, "3:1": 0.0}
    assert plain["stretches"][1]["start_s"] == 10.0
    assert "free" in plain["note"]
    assert "5 s" in plan_ratios(regimes([10.0, 30.0]), REPLICAS, goodput, 5.0).to_dict()["note"]


def test_nothing_served_well_gains_nothing() -> None:
    assert plan_ratios(regimes([10.0]), REPLICAS, np.zeros((1, 3)), 0.0).gain == 0.0
