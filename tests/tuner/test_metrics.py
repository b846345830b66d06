"""Metrics against hand-computed figures and against a slow, obvious twin."""

from __future__ import annotations

import math

import numpy as np
import pytest

from profiler.outcomes import Outcomes, TokenTimes, outcomes_from_token_times
from tuner.metrics import Metrics, compute, good_requests, pool
from tuner.percentiles import weighted_percentiles
from tuner.slo import Limits, Slo

SLO = Slo(("default",), (Limits(ttft_p99_s=1.0, itl_p99_s=0.1),))


def outcomes_of(
    tokens: list[list[float]],
    arrivals: list[float],
    classes: list[int] | None = None,
    limits: list[float] | None = None,
    failed: list[bool] | None = None,
) -> Outcomes:
    """Outcomes of requests whose tokens came at these times."""
    n = len(tokens)
    times = TokenTimes(
        intended_s=np.array(arrivals),
        sent_s=np.array(arrivals),
        token_s=[np.array(t, dtype=np.float64) for t in tokens],
        prompt_tokens=np.full(n, 10, dtype=np.int64),
        failed=np.array(failed or [False] * n),
    )
    return outcomes_from_token_times(
        times, np.array(classes or [0] * n, dtype=np.int64), np.array(limits or [0.1])
    )


@pytest.mark.parametrize("seed", range(20))
def test_weighted_percentiles_equal_repeating(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 40))
    values = rng.choice([0.1, 0.2, 0.2, 0.5, 1.0], size) * rng.integers(1, 4, size)
    weights = rng.integers(0, 5, size)
    weights[0] += 1
    percents = (0, 1, 50, 90, 99, 99.9, 100)
    expected = np.percentile(np.repeat(values, weights), percents, method="inverted_cdf")
    assert weighted_percentiles(values, weights, percents) == expected.tolist()


@pytest.mark.parametrize("size", [0, 1])
def test_weighted_percentiles_of_nothing_are_nan(size: int) -> None:
    found = weighted_percentiles(np.ones(size), np.zeros(size, dtype=np.int64), (50, 99))
    assert np.isnan(found).tolist() == [True, True]


def test_failed_requests_are_in_the_tail() -> None:
    """5 of 100 failed, one of them after its first token: the p90 is of the others, the p99 not."""
    tokens = [[i + 0.1, i + 0.15, i + 0.2] for i in range(95)] + [[95.1]] + [[]] * 4
    failed = [False] * 95 + [True] * 5
    arrivals = [float(i) for i in range(100)]
    found = compute(outcomes_of(tokens, arrivals, failed=failed), SLO)
    assert (found.num_finished, found.num_failed) == (95, 5)
    assert (found.ttft_p50_s, found.ttft_p90_s) == pytest.approx((0.1, 0.1))
    assert found.ttft_p99_s == found.tpot_p99_s == math.inf
    assert found.violations["default.ttft_p99_s"] == math.inf
    assert (found.ttft_mean_s, found.tpot_mean_s) == pytest.approx((0.1, 0.05))
    assert found.goodput_rps == pytest.approx(95 / found.duration_s)
    assert found.to_dict()["ttft_p99_s"] is None
    everything = [t + [9e9] * (3 - len(t)) for t in tokens]  # the same, slowly
    slow = compute(outcomes_of(everything, arrivals), SLO)
    assert slow.ttft_p90_s == pytest.approx(found.ttft_p90_s)


def test_figures_of_two_requests() -> None:
    found = compute(outcomes_of([[1.0, 1.05, 1.10], [2.5, 2.6]], [0.5, 1.0]), SLO)
    assert found.num_requests == found.num_finished == 2
    assert found.ttft_mean_s == pytest.approx(1.0)  # 0.5 and 1.5, from the intended arrival
    assert found.ttft_p50_s == pytest.approx(1.0)
    assert found.itl_p50_s == pytest.approx(0.05)  # gaps 0.05, 0.05, 0.1 pooled
    assert found.itl_max_s == pytest.approx(0.1)
    assert found.itl_mean_s == pytest.approx(0.2 / 3)
    assert found.tpot_mean_s == pytest.approx((0.05 + 0.1) / 2)
    assert found.duration_s == pytest.approx(2.1)  # first arrival 0.5 to last finish 2.6
    assert found.goodput_rps == pytest.approx(1 / 2.1)  # the second waited 1.5 s
    assert found.throughput_rps == pytest.approx(2 / 2.1)
    assert found.slo_attainment == 0.5


def test_a_stall_shared_by_few_shows_in_the_pooled_p99_only() -> None:
    smooth = [list(np.arange(1, 100) * 0.01) for _ in range(9)]
    stalled = [0.01, 3.0, *(3.0 + np.arange(1, 30) * 0.01)]
    found = compute(outcomes_of([*smooth, stalled], [0.0] * 10), SLO)
    assert found.itl_p50_s == pytest.approx(0.01)
    assert found.itl_max_s == pytest.approx(2.99)


@pytest.mark.parametrize(("slow", "good"), [(1, True), (2, False)])
def test_one_percent_of_a_requests_gaps_may_be_slow(slow: int, good: bool) -> None:
    gaps = [0.5] * slow + [0.05] * (100 - slow)
    outcomes = outcomes_of([list(0.5 + np.cumsum([0.0, *gaps]))], [0.0])
    assert good_requests(outcomes, SLO).tolist() == [good]


def test_tpot_limit_counts_when_given() -> None:
    outcomes = outcomes_of([[0.1, 0.2, 0.3]], [0.0], limits=[math.nan])
    strict = Slo(("default",), (Limits(tpot_p99_s=0.09),))
    loose = Slo(("default",), (Limits(tpot_p99_s=0.11),))
    assert not good_requests(outcomes, strict)[0]
    assert good_requests(outcomes, loose)[0]
    assert compute(outcomes, strict).violations["default.tpot_p99_s"] == pytest.approx(0.1 / 0.9)


def test_unserved_requests_are_misses_and_violations() -> None:
    found = compute(
        outcomes_of([[0.1, 0.2], [], [0.1]], [0.0] * 3, failed=[False, False, True]), SLO
    )
    assert (found.num_finished, found.num_unfinished, found.num_failed) == (1, 1, 1)
    assert found.slo_attainment == pytest.approx(1 / 3)
    assert found.violations["default.unserved"] > 0
    assert not found.meets_slo


def test_nothing_served_violates_without_bound() -> None:
    found = compute(outcomes_of([[]], [0.0]), SLO)
    assert found.goodput_rps == 0.0
    assert found.violations["default.ttft_p99_s"] == math.inf


def test_violations_are_relative_and_negative_when_met() -> None:
    found = compute(outcomes_of([[0.5, 0.55]], [0.0]), SLO)
    assert found.violations["default.ttft_p99_s"] == pytest.approx(-0.5)
    assert found.violations["default.itl_p99_s"] == pytest.approx(-0.5)
    assert found.meets_slo
    assert found.worst_violation == pytest.approx(-0.5)


def test_classes_have_their_own_limits() -> None:
    slo = Slo.build(
        ("chat", "batch"),
        {"ttft_p99_s": 1.0, "itl_p99_s": 0.1, "tpot_p99_s": None},
        {"batch": {"ttft_p99_s": 10.0, "itl_p99_s": None}},
    )
    assert slo.limits[1].ttft_p99_s == 10.0
    assert slo.itl_limit_s.tolist() == [0.1, 0.1]
    outcomes = outcomes_of([[5.0, 5.05], [5.0, 5.05]], [0.0, 0.0], [0, 1], [0.1, 0.1])
    found = compute(outcomes, slo)
    assert good_requests(outcomes, slo).tolist() == [False, True]
    assert found.violations["chat.ttft_p99_s"] == pytest.approx(4.0)
    assert found.violations["batch.ttft_p99_s"] == pytest.approx(-0.5)
    assert found.classes["batch"].goodput_rps > found.classes["chat"].goodput_rps == 0.0


def test_pool_adds_durations_and_keeps_differences() -> None:
    one = outcomes_of([[1.0, 1.1], [3.0, 3.1]], [0.5, 2.0])
    two = outcomes_of([[0.2, 0.4]], [0.0])
    both, first, second = (compute(o, SLO) for o in (pool([one, two]), one, two))
    assert both.num_requests == 3
    assert both.duration_s == pytest.approx(first.duration_s + second.duration_s)
    assert both.ttft_mean_s == pytest.approx((0.5 + 1.0 + 0.2) / 3)
    assert both.itl_max_s == pytest.approx(0.2)


def test_dictionary_round_trip_keeps_what_does_not_exist() -> None:
    found = compute(outcomes_of([[0.5]], [0.0]), SLO)
    assert math.isnan(found.itl_p99_s)
    plain = found.to_dict()
    assert plain["itl_p99_s"] is None
    assert plain["meets_slo"] is True
    back = Metrics.from_dict(plain)
    assert back.to_dict() == plain
