"""Intervals and chances: by hand, against a twin, and against the truth."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.outcomes import Outcomes, TokenTimes, outcomes_from_token_times
from tests.tuner.window_truth import CONFIG, measure, problem, traffic
from tuner.intervals import ALL, half_width, odds, over_windows
from tuner.metrics import Metrics, compute
from tuner.slo import Limits, Slo

SLO = Slo(("default",), (Limits(ttft_p99_s=1.0, itl_p99_s=0.1),))


def run(ttft_s: list[float], gap_s: list[float], classes: list[int] | None = None) -> Outcomes:
    """Requests that arrive together, each with its TTFT, then tokens `gap_s` apart."""
    n = len(ttft_s)
    tokens = [first + np.cumsum([0.0, *gap_s]) for first in ttft_s]
    times = TokenTimes(
        np.zeros(n), np.zeros(n), tokens, np.full(n, 10), np.zeros(n, dtype=np.bool_)
    )
    of_class = np.array(classes or [0] * n)
    return outcomes_from_token_times(times, of_class, np.full(1 + of_class.max(), 0.1))


def test_half_width_by_hand() -> None:
    windows = np.array([[2.0, 5.0], [5.0, 5.0]])
    # S = sqrt((1 + 4) / 2); t of 2 degrees of freedom at 95 % is 2.9200
    assert half_width(np.array([3.0, 5.0]), windows) == pytest.approx(
        [2.92 * 2.5**0.5, 0], rel=1e-4
    )


def test_times_are_taken_as_logarithms() -> None:
    found = over_windows(run([0.5], [0.05]), [run([0.25], [0.05]), run([1.0], [0.05])], SLO)
    low, high = found.intervals["ttft_p50_s"]
    assert low == pytest.approx(0.5 * 2**-2.92, rel=1e-4)
    assert high == pytest.approx(0.5 * 2**2.92, rel=1e-4)


def test_figures_stay_those_of_the_trace() -> None:
    trace = run([0.5, 0.7], [0.05, 0.06])
    found = over_windows(trace, [run([0.9], [0.09])], SLO)
    plain = compute(trace, SLO)
    assert replace(found, intervals={}, chance={}, num_windows=1) == plain
    assert over_windows(trace, [], SLO) == plain


@pytest.mark.parametrize("seed", range(10))
def test_itl_intervals_equal_repeated_gaps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    trace, *windows = (run([0.5], list(rng.lognormal(-3, 1, 40).round(3))) for _ in range(4))
    found = over_windows(trace, windows, SLO)
    for name, percent in (("itl_p50_s", 50), ("itl_p90_s", 90), ("itl_p99_s", 99)):
        limit = getattr(found, name)
        shares = [np.mean(o.gap_s <= limit) for o in (trace, *windows)]
        spread = math.sqrt(np.mean([(s - shares[0]) ** 2 for s in shares[1:]]))
        half = 235.336 * spread  # t of 3 degrees of freedom at 95 %, in percent
        ends = np.clip([percent - half, percent + half], 0, 100)
        expected = np.percentile(trace.gap_s, ends, method="inverted_cdf")
        assert found.intervals[name] == pytest.approx(tuple(expected))
        assert found.intervals[name][0] <= limit <= found.intervals[name][1]


def test_chance_is_the_share_of_windows_that_meet() -> None:
    good, late, slow = run([0.5], [0.05]), run([2.0], [0.05]), run([0.5], [0.2])
    found = over_windows(good, [good, late, slow], SLO)
    assert found.chance == {
        "default.ttft_p99_s": 0.75,
        "default.itl_p99_s": 0.75,
        "default.unserved": 1.0,
        ALL: 0.5,
    }
    assert odds(found.to_dict()) == "2/4"
    assert odds(found.to_dict(), "default.itl_p99_s") == "3/4"
    assert odds(compute(good, SLO).to_dict()) == "-"
    assert found.meets_slo


def test_classes_have_intervals_of_their_own() -> None:
    slo = Slo(("a", "b"), (Limits(ttft_p99_s=1.0), Limits(ttft_p99_s=0.1)))
    trace = run([0.5, 0.05], [0.05], [0, 1])
    windows = [run([0.5, 0.05], [0.05], [0, 1]), run([0.9, 0.9], [0.07], [0, 0])]
    windows[1] = replace(
        windows[1],
        itl_limit_s=np.full(2, 0.1),
        gap_weight=np.pad(windows[1].gap_weight, (0, 1))[:2],
    )
    found = over_windows(trace, windows, slo)
    low, high = found.classes["a"].intervals["ttft_p50_s"]
    assert low < 0.5 < high
    assert found.classes["b"].intervals["ttft_p50_s"] == pytest.approx((0.05, 0.05))
    assert found.chance["b.ttft_p99_s"] == 1.0  # nothing of b was late in the second window


def test_figures_that_a_window_lacks_have_no_interval() -> None:
    found = over_windows(run([0.5], [0.05]), [run([0.5], [])], SLO)
    assert "ttft_p99_s" in found.intervals
    assert not any(name.startswith(("itl", "tpot")) for name in found.intervals)
    assert all(high >= low >= 0 for low, high in found.intervals.values())


def test_dictionary_round_trip() -> None:
    found = over_windows(run([0.5], [0.05]), [run([0.7], [0.06])], SLO)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain == found.to_dict()
    assert Metrics.from_dict(plain) == found


def test_windows_leave_the_prediction_alone_and_repeat() -> None:
    trace = traffic(30.0, 6.0, steady=True)(1)
    alone = problem(trace, 1).evaluate(EngineConfig())
    found = problem(trace, 4).evaluate(EngineConfig())
    assert replace(found, intervals={}, chance={}, num_windows=1) == alone
    assert problem(trace, 4).evaluate(CONFIG) == found


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    """Few, short traces, to be quick; `tests/benchmarks/test_window_coverage.py` has the rest."""
    found = measure(traffic(33.0, 6.0, steady=True), 30, 60)
    print(found.line())
    for name in ("ttft_p50_s", "itl_p99_s", "goodput_rps"):
        assert found.covered[name] >= 0.75, found.line()
    assert abs(found.met - found.chance) < 0.15
