"""Replay of a trace on the fake engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from profiler.engines.base import EngineSpec
from profiler.engines.fake import FakeEngine
from profiler.errors import EngineDiedError, EvidenceError
from profiler.outcomes import Status
from profiler.replay import Fidelity, replay
from profiler.traffic.trace import Trace

TRACE = Trace(
    arrival_s=np.array([0.0, 0.1, 0.2]),
    prompt_tokens=np.array([100, 200, 20_000]),
    output_tokens=np.array([5, 4, 3]),
)


def engine(**options: object) -> FakeEngine:
    return FakeEngine(EngineSpec("fake", "any", engine_args=options))


def test_outcomes_of_a_replay() -> None:
    done: list[int] = []
    result = replay(engine(), TRACE, progress=lambda finished, total: done.append(finished))
    outcomes = result.outcomes
    assert outcomes.status.tolist() == [Status.FINISHED, Status.FINISHED, Status.FAILED]
    assert outcomes.output_tokens.tolist() == [5, 4, 0]
    assert outcomes.arrival_s.tolist() == TRACE.arrival_s.tolist()
    assert np.all(outcomes.first_token_s[:2] > TRACE.arrival_s[:2])
    assert outcomes.gap_s.size == 4 + 3
    assert outcomes.gap_weight.shape == (7, 1)
    assert done[-1] == 3
    assert result.fidelity == Fidelity(0.0, 0.0, 0.0, 0.02)
    result.require_evidence()


def test_slow_gaps_are_counted_per_class() -> None:
    classes = np.array([0, 1, 1])
    trace = replace(TRACE, request_class=classes, class_names=("chat", "batch"))
    outcomes = replay(engine(), trace, itl_limit_s=np.array([1e-3, 1.0])).outcomes
    assert outcomes.request_class.tolist() == [0, 1, 1]
    assert outcomes.num_slow_gaps.tolist() == [4, 0, 0]
    assert outcomes.gap_weight.sum(axis=0).tolist() == [4, 3]


class LateEngine(FakeEngine):
    """Sends 3 % of its requests half a second late."""

    def replay(self, requests, **options):  # type: ignore[no-untyped-def]
        times = super().replay(requests, **options)
        late_s = np.zeros(requests.arrival_s.size)
        late_s[: late_s.size * 3 // 100] = 0.5
        return replace(times, sent_s=times.sent_s + late_s)


def test_a_replay_that_fell_behind_is_no_evidence() -> None:
    count = 200
    trace = Trace(np.arange(count) * 0.1, np.full(count, 10), np.full(count, 2))
    result = replay(LateEngine(EngineSpec("fake", "any")), trace)
    assert result.fidelity.late_p50_s == 0.0
    assert result.fidelity.late_p99_s == result.fidelity.late_max_s == 0.5
    with pytest.raises(EvidenceError, match=r"at most 20 ms late, got 500\.0 ms; free"):
        result.require_evidence()
    replay(LateEngine(EngineSpec("fake", "any")), trace, max_late_s=0.6).require_evidence()


def test_a_dead_engine_is_no_replay() -> None:
    with pytest.raises(EngineDiedError):
        replay(engine(die_at_request=1), TRACE)


def test_an_empty_trace() -> None:
    nothing = np.empty(0, dtype=np.int64)
    result = replay(engine(), Trace(np.empty(0), nothing, nothing))
    assert result.outcomes.num_requests == 0
    assert result.fidelity.ok
