"""Change points against trying every segmentation, and on traffic with known changes."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from profiler.traffic.regimes import MAX_REGIMES, find_regimes, segment
from profiler.traffic.trace import FloatArray, Trace

RNG = np.random.default_rng


def slow_segment(
    values: FloatArray, weights: FloatArray, penalty: float, shortest: int
) -> tuple[list[int], float]:
    """The best of all segmentations, and what it costs."""
    num = values.shape[1]
    best: tuple[list[int], float] = ([], np.inf)
    for k in range(num):
        for inner in combinations(range(1, num), k):
            bounds = [0, *inner, num]
            if min(np.diff(bounds)) < shortest:
                continue
            cost = penalty * k
            for begin, end in pairwise(bounds):
                for x, w in zip(values[:, begin:end], weights[:, begin:end], strict=True):
                    mean = np.average(x, weights=w)
                    cost += float((w * (x - mean) ** 2).sum())
            if cost < best[1]:
                best = (bounds[:-1], cost)
    return best


@pytest.mark.parametrize("seed", range(15))
def test_segments_are_the_best_of_all(seed: int) -> None:
    rng = RNG(seed)
    num = int(rng.integers(2, 9))
    values = rng.normal(size=(3, num)) + 3 * (np.arange(num) >= num // 2)
    weights = rng.integers(1, 5, size=(3, num)).astype(float)
    shortest = int(rng.integers(1, 1 + num // 2))
    penalty = float(rng.choice([0.5, 3.0, 30.0]))
    expected, _ = slow_segment(values, weights, penalty, shortest)
    assert segment(values, weights, penalty, shortest) == expected


def traffic(seed: int, *parts: tuple[float, float, float]) -> Trace:
    """Poisson stretches of 600 s: (rate, median prompt, median output)."""
    rng = RNG(seed)
    arrival, prompt, output = [], [], []
    for number, (rate, tokens, out) in enumerate(parts):
        times = np.sort(rng.uniform(0, 600, rng.poisson(rate * 600)))
        arrival.append(600 * number + times)
        prompt.append(rng.lognormal(np.log(tokens), 1.0, times.size))
        output.append(rng.lognormal(np.log(out), 0.8, times.size))
    lengths = [np.maximum(1, np.concatenate(x)).astype(np.int64) for x in (prompt, output)]
    times = np.concatenate(arrival)
    return Trace.build(times - times[0], *lengths)


CALM = (5.0, 800.0, 100.0)


@pytest.mark.parametrize("other", [(9.0, 800.0, 100.0), (5.0, 1600.0, 100.0), (5.0, 800.0, 50.0)])
def test_a_known_change_is_found(other: tuple[float, float, float]) -> None:
    found = find_regimes(traffic(3, CALM, CALM, other))
    assert len(found) == 2
    assert found[1].start_s == pytest.approx(1200, abs=40)
    assert found[1].rate_rps == pytest.approx(other[0], rel=0.1)
    ratio = found[1].mean_prompt_tokens / found[0].mean_prompt_tokens
    assert ratio == pytest.approx(other[1] / CALM[1], rel=0.25)


def test_there_and_back() -> None:
    found = find_regimes(traffic(5, CALM, (12.0, 400.0, 200.0), CALM))
    assert [r.start_s for r in found] == pytest.approx([0, 600, 1200], abs=25)
    assert found[-1].end_s == pytest.approx(1800, abs=5)


def test_regimes_partition_the_trace() -> None:
    trace = traffic(5, CALM, (12.0, 400.0, 200.0), CALM)
    found = find_regimes(trace)
    taken = [regime.take(trace) for regime in found]
    assert sum(t.num_requests for t in taken) == trace.num_requests
    assert np.concatenate([t.prompt_tokens for t in taken]).tolist() == trace.prompt_tokens.tolist()
    for regime, part in zip(found, taken, strict=True):
        assert part.duration_s <= regime.duration_s + 1e-9
        assert part.prompt_tokens.mean() == pytest.approx(regime.mean_prompt_tokens)
    assert [r.end_s for r in found[:-1]] == [r.start_s for r in found[1:]]


@pytest.mark.parametrize("shape", [1.0, 0.25], ids=["poisson", "bursty"])
def test_stationary_traffic_is_one_regime(shape: float) -> None:
    """False alarms: none in 40 traces of 6,000 requests."""
    alarms = 0
    for seed in range(40):
        rng = RNG(seed)
        arrival = np.cumsum(rng.gamma(shape, 1 / shape, 6000))
        prompt, output = (
            np.maximum(1, rng.lognormal(6, 1.2, 6000)).astype(np.int64) for _ in range(2)
        )
        alarms += len(find_regimes(Trace.build(arrival - arrival[0], prompt, output))) > 1
    assert alarms == 0


def test_lengths_that_never_vary() -> None:
    arrival = np.arange(4000) * 0.1
    ones = np.ones(4000, dtype=np.int64)
    assert len(find_regimes(Trace.build(arrival, 100 * ones, 10 * ones))) == 1
    step = np.where(arrival < 200, 100, 200)
    found = find_regimes(Trace.build(arrival, step, 10 * ones))
    assert [r.mean_prompt_tokens for r in found] == pytest.approx([100, 200], rel=0.05)


def test_never_more_than_the_most() -> None:
    parts = [CALM if i % 2 else (15.0, 200.0, 300.0) for i in range(14)]
    trace = traffic(1, *parts)
    assert len(find_regimes(trace, most=20)) == 14
    assert 1 <= len(find_regimes(trace)) <= MAX_REGIMES


@pytest.mark.parametrize("num", [1, 2, 300])
def test_short_traffic_is_one_regime(num: int) -> None:
    ones = np.ones(num, dtype=np.int64)
    found = find_regimes(Trace.build(np.arange(num) * 1.0, ones, ones))
    assert [(r.first, r.num_requests) for r in found] == [(0, num)]


def test_all_at_once_is_one_regime() -> None:
    ones = np.ones(2000, dtype=np.int64)
    assert len(find_regimes(Trace.build(np.zeros(2000), ones, ones))) == 1


def idle_between(num: int = 1000) -> Trace:
    """400 s of traffic, 200 s of none, 400 s of traffic."""
    times = np.concatenate([np.linspace(0, 399, num), np.linspace(601, 1000, num)])
    ones = np.ones(2 * num, dtype=np.int64)
    return Trace.build(times, 100 * ones, 10 * ones)


def test_a_stretch_without_requests() -> None:
    before, idle, after = find_regimes(idle_between())
    assert (before.num_requests, idle.num_requests, after.num_requests) == (1000, 0, 1000)
    assert (idle.rate_rps, idle.mean_prompt_tokens, idle.mean_output_tokens) == (0, 0, 0)
    assert idle.duration_s == pytest.approx(200, abs=10)
