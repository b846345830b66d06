"""Windows drawn from a trace, against a slow, obvious twin."""

from __future__ import annotations

import numpy as np
import pytest

from profiler.traffic.synthetic import like
from profiler.traffic.trace import Trace
from tuner.windows import NUM_BLOCKS, copy_numbers, draw_windows, each_window


def numbered(n: int, seed: int, *, prefixes: bool = False) -> Trace:
    """Request i has a prompt of i + 1 tokens, so that it can be told wherever it turns up."""
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.exponential(size=n))
    optional = {}
    if prefixes:  # everybody's first block is the same, the second is the request's own
        optional = {
            "prefix_hashes": np.stack([np.full(n, 7), 1000 + np.arange(n)], axis=1).ravel(),
            "prefix_offsets": 2 * np.arange(n + 1),
            "prefix_block_tokens": 16,
        }
    return Trace.build(
        arrival - arrival[0],
        np.arange(n) + (17 if prefixes else 1),
        rng.integers(1, 50, n),
        request_class=rng.integers(0, 2, n),
        class_names=("a", "b"),
        **optional,
    )


@pytest.mark.parametrize("n", [1, 2, 5, 31, 33, 100, 1000])
def test_windows_are_joined_from_runs_of_the_trace(n: int) -> None:
    trace = numbered(n, n)
    gap = [trace.duration_s / max(1, n - 1), *np.diff(trace.arrival_s)]
    windows = draw_windows(trace, 4)
    assert len(windows) == 3
    for window in windows:
        assert window.num_requests == n
        who = window.prompt_tokens - 1
        assert (window.output_tokens == trace.output_tokens[who]).all()
        assert (window.classes == trace.classes[who]).all()
        breaks, now = 0, 0.0
        for i in range(1, n):
            now += gap[who[i]]
            assert window.arrival_s[i] == pytest.approx(now)
            breaks += who[i] != (who[i - 1] + 1) % n
        assert window.arrival_s[0] == 0.0
        assert breaks < NUM_BLOCKS


def test_windows_are_the_same_ones_every_time() -> None:
    trace = numbered(200, 1)
    few, many = draw_windows(trace, 3), draw_windows(trace, 8)
    assert [w.digest() for w in few] == [w.digest() for w in many[:2]]
    assert len({w.digest() for w in (trace, *many)}) == 8
    assert draw_windows(trace, 1) == []
    assert next(each_window(trace, 100)).digest() == few[0].digest()


@pytest.mark.parametrize("seed", range(10))
def test_copy_numbers_equal_counting(seed: int) -> None:
    index = np.random.default_rng(seed).integers(0, 8, 30)
    seen: list[int] = []
    expected = []
    for value in index:
        expected.append(seen.count(value))
        seen.append(value)
    assert copy_numbers(index).tolist() == expected


def test_copies_of_a_request_share_no_prefix_with_each_other() -> None:
    trace = numbered(200, 1, prefixes=True)
    (window,) = draw_windows(trace, 2)
    assert window.prefix_hashes is not None
    copies = copy_numbers(window.prompt_tokens)
    shared, own = window.prefix_hashes.reshape(-1, 2).T
    assert copies.max() > 0
    assert np.unique(own).size == 200
    assert (own[copies == 0] == 1000 + window.prompt_tokens[copies == 0] - 17).all()
    for copy in range(copies.max() + 1):  # what all share stays shared among equal copies
        assert np.unique(shared[copies == copy]).size == 1


def test_windows_keep_rate_and_lengths_on_average() -> None:
    trace = like(duration_s=600.0, rate_rps=5.0, seed=3)
    windows = draw_windows(trace, 41)
    rates = [w.rate_rps for w in windows]
    assert np.mean(rates) == pytest.approx(trace.rate_rps, rel=0.05)
    assert np.std(rates) > 0.02 * trace.rate_rps
    prompts = np.mean([w.prompt_tokens.mean() for w in windows])
    assert prompts == pytest.approx(trace.prompt_tokens.mean(), rel=0.05)
