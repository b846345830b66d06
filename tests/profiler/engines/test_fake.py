"""The fake engine does what its formula says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.engines import fake, start_engine
from profiler.engines.base import EngineSpec, Requests
from profiler.errors import (
    EngineDiedError,
    EngineHungError,
    EngineStartError,
    InputError,
    KnobError,
)


def engine(config: EngineConfig | None = None, **options: Any) -> fake.FakeEngine:
    return fake.FakeEngine(EngineSpec("fake", "any", config or EngineConfig(), engine_args=options))


def requests(*lengths: tuple[float, int, int]) -> Requests:
    arrival_s, prompt, output = zip(*lengths, strict=True)
    return Requests(np.array(arrival_s), np.array(prompt), np.array(output))


def test_times_follow_the_formula() -> None:
    started = engine(EngineConfig(max_num_batched_tokens=100, max_num_seqs=4))
    times = started.replay(requests((0.0, 150, 2)))
    first = fake.STEP_S + 100 * fake.PREFILL_TOKEN_S + 100 * 50.5 * fake.PAIR_S
    second = fake.STEP_S + 50 * fake.PREFILL_TOKEN_S + 50 * 125.5 * fake.PAIR_S
    third = fake.STEP_S + fake.DECODE_S + 150 * fake.CONTEXT_S
    ends = np.cumsum(np.array([first, second, third]) + fake.HOST_S)
    assert times.token_s[0] == pytest.approx(ends[1:])
    steps = started.take_steps()
    assert steps.exec_s == pytest.approx([first, second, third])
    assert np.isnan(steps.interval_s[0])
    assert steps.interval_s[1:] == pytest.approx(np.array([second, third]) + fake.HOST_S)


def test_the_cap_holds_while_others_are_present() -> None:
    config = EngineConfig(
        max_num_batched_tokens=100, max_num_seqs=4, long_prefill_token_threshold=30
    )
    started = engine(config)
    started.replay(requests((0.0, 100, 1)))  # alone: no cap
    assert started.take_steps().prefill_tokens.tolist() == [100]
    started.replay(requests((0.0, 60, 1), (0.0, 60, 1)))
    assert started.take_steps().prefill_tokens.tolist() == [60, 60]
    adaptive = EngineConfig(long_prefill_token_threshold_adaptive=True).over(config)
    started = engine(adaptive)
    started.replay(requests((0.0, 60, 1), (0.0, 60, 1)))
    assert started.take_steps().prefill_tokens.tolist() == [100, 20]


def test_slots_bound_the_running_requests() -> None:
    started = engine(EngineConfig(max_num_seqs=2))
    started.replay(requests(*[(0.0, 10, 3)] * 5))
    steps = started.take_steps()
    assert steps.num_running.max() == 2
    assert steps.num_waiting[0] == 3


def test_requests_meet_an_idle_engine_after_a_pause() -> None:
    started = engine()
    times = started.replay(requests((0.0, 10, 1), (5.0, 10, 1)))
    assert times.token_s[1][0] - 5.0 == pytest.approx(times.token_s[0][0])
    assert np.isnan(started.take_steps().interval_s).all()
    again = started.replay(requests((0.0, 10, 1)))
    assert again.origin_s == pytest.approx(5.0 + times.token_s[0][0] + fake.PAUSE_S)


def test_an_output_is_cut_at_the_model_limit() -> None:
    times = engine(EngineConfig(max_model_len=100)).replay(requests((0.0, 98, 50)))
    assert times.token_s[0].size == 2


def test_same_seed_same_noise() -> None:
    many = requests(*[(0.02 * i, 50, 20) for i in range(20)])
    first, second, other = (engine(noise=0.1, seed=s) for s in (1, 1, 2))
    runs = [np.concatenate(e.replay(many).token_s) for e in (first, second, other)]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])
    clean = engine()
    clean.replay(many)
    ratio = first.take_steps().exec_s.mean() / clean.take_steps().exec_s.mean()
    assert ratio == pytest.approx(1.0, abs=0.05)


def test_drift_slows_and_quickens() -> None:
    started = engine(drift=0.25)
    quarter = fake.DRIFT_PERIOD_S / 4
    started.replay(requests(*[(k * quarter, 10, 1) for k in range(4)]))
    exec_s = started.take_steps().exec_s
    assert exec_s / exec_s[0] == pytest.approx([1.0, 1.25, 1.0, 0.75], rel=1e-3)


@pytest.mark.parametrize(
    ("option", "error"), [("die_at_request", EngineDiedError), ("hang_at_request", EngineHungError)]
)
def test_it_fails_when_told_to(option: str, error: type[Exception]) -> None:
    started = engine(**{option: 2})
    started.replay(requests((0.0, 10, 1), (1.0, 10, 1)))
    with pytest.raises(error, match="at request 2"):
        started.replay(requests(*[(0.1 * i, 10, 1) for i in range(4)]))
    with pytest.raises(EngineDiedError, match="was stopped"):
        started.replay(requests((0.0, 10, 1)))


def test_what_cannot_start() -> None:
    with pytest.raises(EngineStartError, match="no argument 'speed'"):
        engine(speed=2)
    with pytest.raises(KnobError, match="max_num_seqs must be at most"):
        engine(EngineConfig(max_num_batched_tokens=8, max_num_seqs=16))
    with pytest.raises(InputError, match="engine must be one of vllm, rehearsal, fake, got 'vlm'"):
        start_engine(EngineSpec("vlm", "any"))
