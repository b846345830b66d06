"""Front-end delays of a replay."""

from __future__ import annotations

import numpy as np
import pytest

from profiler.collect import delivery_s, inward_s
from profiler.engines import start_engine
from profiler.engines.base import EngineSpec, Requests
from profiler.engines.step_file import HEADER, StepRecords, step_samples
from profiler.outcomes import TokenTimes
from profiler.steps import StepSamples


def steps_at(starts: list[float], chunks: list[bool]) -> StepSamples:
    """Steps of one request each, scheduled in 1 ms and executed in 9 ms."""
    header = np.zeros((len(starts), HEADER))
    header[:, 0], header[:, 1], header[:, 2], header[:, 3] = 1, starts, 0.001, 0.009
    entry = np.array([[0, 10 if chunk else 1, 0, chunk] for chunk in chunks], dtype=np.float64)
    return step_samples(StepRecords(header, entry))


def test_delivery_counts_from_the_step_that_gave_the_first_token() -> None:
    steps = steps_at([5.00, 5.10, 5.11], [True, True, False])  # chunks end at 5.010 and 5.110
    times = TokenTimes(
        intended_s=np.zeros(3),
        sent_s=np.zeros(3),
        token_s=[np.array([1.012, 1.9]), np.array([1.125]), np.empty(0)],  # 5.012 and 5.125
        prompt_tokens=np.full(3, 10),
        failed=np.array([False, False, True]),
        origin_s=4.0,
    )
    assert delivery_s(times, steps) == pytest.approx((0.002 + 0.015) / 2)


def test_no_first_token_no_delay() -> None:
    nothing = TokenTimes(np.zeros(1), np.zeros(1), [np.empty(0)], np.ones(1), np.ones(1, bool))
    assert delivery_s(nothing, steps_at([5.0], [True])) == 0.0


def test_both_on_an_engine() -> None:
    with start_engine(EngineSpec("fake", "none")) as engine:
        before = inward_s(engine)
        times = engine.replay(Requests(np.zeros(4), np.full(4, 50), np.full(4, 3)))
        after = delivery_s(times, engine.take_steps())
    assert 0.0 <= before < 0.01
    assert 0.0 <= after < 0.01
