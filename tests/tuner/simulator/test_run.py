"""The Python boundary: what is refused, rejected and reported."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.errors import KnobError, SimulationError
from profiler.latency.base import load_latency_model
from profiler.outcomes import Status
from profiler.traffic.trace import Trace
from tuner.simulator import simulate

MODEL = dataclasses.replace(load_latency_model("example-8b"), residuals=np.ones(1))
CONFIG = EngineConfig(max_num_batched_tokens=256, max_num_seqs=8, max_model_len=1024, block_size=16)


def trace_of(*rows: tuple[float, int, int]) -> Trace:
    arrival, prompt, output = (np.array(c) for c in zip(*rows, strict=True))
    return Trace(arrival.astype(float), prompt.astype(np.int64), output.astype(np.int64))


def test_a_lone_request_takes_its_chunks_and_its_decodes() -> None:
    model = dataclasses.replace(MODEL, residuals=np.ones(1))
    result = simulate(trace_of((0.0, 600, 5)), CONFIG, model, num_kv_blocks=100)
    assert result.num_steps == 3 + 4  # 256 + 256 + 88 tokens, then one token a step
    assert result.outcomes.gap_s.size == 4
    assert result.outcomes.output_tokens.tolist() == [5]


def test_requests_that_can_never_run_are_rejected_and_the_rest_goes_on() -> None:
    too_long, too_big = (0.0, 1024, 3), (0.1, 900, 100)
    result = simulate(
        trace_of((0.0, 100, 4), too_long, too_big, (0.2, 100, 4)), CONFIG, MODEL, num_kv_blocks=21
    )
    finished, rejected = Status.FINISHED, Status.REJECTED
    assert result.outcomes.status.tolist() == [finished, rejected, rejected, finished]
    assert np.isnan(result.outcomes.first_token_s[1:3]).all()


def test_output_is_cut_at_the_model_length() -> None:
    result = simulate(trace_of((0.0, 1000, 500)), CONFIG, MODEL, num_kv_blocks=100)
    assert result.outcomes.output_tokens.tolist() == [24]


def test_nothing_admissible_is_no_hang() -> None:
    result = simulate(trace_of((0.0, 2000, 5)), CONFIG, MODEL, num_kv_blocks=100)
    assert result.outcomes.status.tolist() == [Status.REJECTED]
    assert result.num_steps == 0


def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not() -> None:
    trace = trace_of(*((0.05 * i, 300, 40) for i in range(50)))
    model = dataclasses.replace(MODEL, residuals=np.linspace(0.8, 1.2, 11))

    def finish(seed: int | None) -> bytes:
        done = simulate(trace, CONFIG, model, num_kv_blocks=500, seed=seed)
        return done.outcomes.finish_s.tobytes()

    assert finish(3) == finish(3)
    assert finish(3) != finish(4)
    assert finish(None) == finish(None)


def test_itl_limits_count_slow_gaps_by_class() -> None:
    trace = dataclasses.replace(
        trace_of((0.0, 10, 30), (0.0, 10, 30), (0.1, 900, 2)),
        request_class=np.array([0, 1, 0]),
        class_names=("chat", "batch"),
    )
    limits = np.array([0.006, np.nan])
    result = simulate(trace, CONFIG, MODEL, num_kv_blocks=500, itl_limit_s=limits, seed=None)
    gaps, weight = result.outcomes.gap_s, result.outcomes.gap_weight
    assert result.outcomes.num_slow_gaps[1] == 0
    slow = int((weight[:, 0] * (gaps > limits[0])).sum())
    assert slow > 0
    assert result.outcomes.num_slow_gaps.sum() == slow
    assert weight.sum(axis=0).tolist() == [29 + 1, 29]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_num_seqs": 512}, "max_num_seqs must be at most max_num_batched_tokens"),
        ({"block_size": None}, "block_size must be resolved"),
    ],
)
def test_configurations_that_cannot_be_simulated_are_refused(
    change: dict[str, object], words: str
) -> None:
    config = dataclasses.replace(CONFIG, **change)  # type: ignore[arg-type]
    with pytest.raises(KnobError, match=words):
        simulate(trace_of((0.0, 10, 2)), config, MODEL, num_kv_blocks=100)


def with_prefixes(trace: Trace, block: int, *hashes: list[int]) -> Trace:
    return dataclasses.replace(
        trace,
        prefix_hashes=np.array([h for of in hashes for h in of], dtype=np.int64),
        prefix_offsets=np.cumsum([0, *(len(of) for of in hashes)]).astype(np.int64),
        prefix_block_tokens=block,
    )


def test_a_prefix_hash_of_512_tokens_covers_32_blocks_of_16() -> None:
    trace = with_prefixes(trace_of((0.0, 1100, 2), (9.0, 1100, 2)), 512, [1, 2, 3], [1, 2, 4])
    config = dataclasses.replace(CONFIG, max_model_len=2048)
    assert simulate(trace, config, MODEL, num_kv_blocks=200).cached_tokens == 1024
    off = dataclasses.replace(config, enable_prefix_caching=False)
    assert simulate(trace, off, MODEL, num_kv_blocks=200).cached_tokens == 0


@pytest.mark.parametrize(
    ("second", "hashes", "cached"),
    [
        (600, [1, 2], 592),  # the same prompt: all but the block of its last token
        (608, [1, 2], 512),  # the last hash covers another number of tokens: nothing is proved
        (1024, [1, 2], 512),
        (600, [2, 2], 0),  # equal hashes after different ones are different content
        (600, [1], 512),
    ],
)
def test_the_last_started_prefix_block_is_shared_only_with_its_equal(
    second: int, hashes: list[int], cached: int
) -> None:
    trace = with_prefixes(trace_of((0.0, 600, 2), (9.0, second, 2)), 512, [1, 2], hashes)
    config = dataclasses.replace(CONFIG, max_model_len=2048)
    assert simulate(trace, config, MODEL, num_kv_blocks=200).cached_tokens == cached


def test_a_prefix_is_hit_by_a_request_admitted_in_the_same_step() -> None:
    trace = with_prefixes(trace_of((0.0, 64, 2), (0.0, 64, 2)), 16, [1, 2, 3, 4], [1, 2, 3, 4])
    result = simulate(trace, CONFIG, MODEL, num_kv_blocks=200, record=True)
    assert result.record is not None
    first = result.record.tokens > 0
    assert result.record.tokens[first][:2].tolist() == [64, 16]
    assert result.record.before[first][:2].tolist() == [0, 48]


def test_urgent_requests_overtake_waiting_ones_only() -> None:
    trace = dataclasses.replace(
        trace_of((0.0, 100, 40), (0.001, 100, 2), (0.002, 100, 2)), priority=np.array([1, 1, 0])
    )
    config = dataclasses.replace(CONFIG, max_num_seqs=1, scheduling_policy="priority")
    first = simulate(trace, config, MODEL, num_kv_blocks=200).outcomes.first_token_s
    assert first[0] < first[2] < first[1]


def test_gaps_of_a_long_run_are_kept_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = dataclasses.replace(
        trace_of(*((0.05 * i, 300, 40) for i in range(400))),
        request_class=np.arange(400) % 2,
        class_names=("chat", "batch"),
    )
    exact = simulate(trace, CONFIG, MODEL, num_kv_blocks=500).outcomes
    monkeypatch.setattr("tuner.simulator.gap_store.MAX_LOGGED", 64)
    binned = simulate(trace, CONFIG, MODEL, num_kv_blocks=500).outcomes
    assert binned.gap_s.size < exact.gap_s.size
    assert binned.gap_weight.sum(axis=0).tolist() == exact.gap_weight.sum(axis=0).tolist()
    for c in range(2):
        one, other = (np.sort(np.repeat(o.gap_s, o.gap_weight[:, c])) for o in (exact, binned))
        np.testing.assert_allclose(one, other, rtol=2.5e-4)
    np.testing.assert_allclose(
        exact.gap_s @ exact.gap_weight.sum(axis=1), binned.gap_s @ binned.gap_weight.sum(axis=1)
    )


@pytest.mark.parametrize("drafts", [0, 3])
@pytest.mark.parametrize("overlapped", [False, True])
def test_closed_loop_sends_when_answers_come(overlapped: bool, drafts: int) -> None:
    """Request i is sent when the (i - concurrency)-th answer comes, and the same arrivals in an
    open loop give the same times."""
    rng = np.random.default_rng(0)
    rates = rng.random(60)
    trace = Trace.build(
        np.zeros(60), rng.integers(1, 400, 60), rng.integers(1, 30, 60), acceptance_rate=rates
    )
    config = dataclasses.replace(CONFIG, async_scheduling=overlapped, num_speculative_tokens=drafts)
    closed = simulate(trace, config, MODEL, num_kv_blocks=4000, concurrency=7).outcomes
    assert (closed.arrival_s[:7] == 0).all()
    answered = np.sort(closed.finish_s)[: 60 - 7]
    np.testing.assert_allclose(closed.arrival_s[7:], answered, rtol=1e-12)
    opened = simulate(
        dataclasses.replace(trace, arrival_s=closed.arrival_s), config, MODEL, num_kv_blocks=4000
    ).outcomes
    np.testing.assert_allclose(opened.first_token_s, closed.first_token_s, rtol=1e-9)
    np.testing.assert_allclose(opened.finish_s, closed.finish_s, rtol=1e-9)


def test_closed_loop_takes_no_request_that_is_refused() -> None:
    trace = Trace.build([0, 0], [10, 50_000], [5, 5])
    with pytest.raises(SimulationError, match="closed loop takes only traffic"):
        simulate(trace, CONFIG, MODEL, num_kv_blocks=4000, concurrency=1)
