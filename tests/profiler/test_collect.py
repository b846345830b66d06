"""Profiling the deterministic engine, whose step times and drift are known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from profiler.collect import Profile, profile, run_sentinel
from profiler.collect.design import Episode, Limits, episodes
from profiler.collect.sentinel import Reading, reference_s, smoothed_s, speed_at
from profiler.engine_config import EngineConfig
from profiler.engines import fake as known
from profiler.engines import start_engine
from profiler.engines.base import EngineSpec
from profiler.errors import InputError, ResultsError
from profiler.steps import StepSamples
from profiler.traffic.trace import Trace


def _trace() -> Trace:
    rng = np.random.default_rng(0)
    return Trace(
        arrival_s=np.concatenate([[0.0], np.cumsum(rng.exponential(0.25, 399))]),
        prompt_tokens=np.clip(rng.lognormal(6.0, 1.0, 400), 8, 2000).astype(np.int64),
        output_tokens=np.clip(rng.lognormal(4.0, 0.6, 400), 1, 64).astype(np.int64),
        source="made up",
    )


def _profile(budget_s: float = 120.0, **engine_args: float) -> Profile:
    with start_engine(EngineSpec("fake", "fake", engine_args=engine_args)) as engine:
        return profile(engine, _trace(), budget_s=budget_s, seed=0)


@pytest.fixture(scope="module")
def quiet() -> Profile:
    return _profile()


@pytest.fixture(scope="module")
def drifting() -> Profile:
    return _profile(noise=0.02, drift=0.2, seed=1)


def _true_s(steps: StepSamples) -> np.ndarray:
    """Execution time by the fake engine's formula, without drift and noise."""
    return (
        known.STEP_S
        + known.PREFILL_TOKEN_S * steps.prefill_tokens
        + known.DECODE_S * steps.num_decodes
        + known.PAIR_S * steps.attention_pairs
        + known.CONTEXT_S * steps.decode_context
    )


def test_known_coefficients_come_back(quiet: Profile) -> None:
    params = quiet.model.params
    assert params.table.size == 0
    assert params.per_attention_pair_s == pytest.approx(known.PAIR_S, rel=1e-3)
    assert params.per_decode_context_s == pytest.approx(known.CONTEXT_S, rel=1e-3)
    assert params.host_s == pytest.approx(known.HOST_S, rel=1e-3)
    np.testing.assert_allclose(
        quiet.model.device_s(quiet.samples), _true_s(quiet.samples), rtol=1e-4
    )
    assert quiet.report.worst_median < 1e-4


def test_all_kinds_of_steps_are_sampled_widely(quiet: Profile) -> None:
    steps = quiet.samples.select(~quiet.samples.is_sentinel)
    assert quiet.model.region.gaps() == ()
    assert min(quiet.model.region.counts) >= 50
    assert steps.num_decodes.max() >= 64
    assert steps.num_prefills.max() >= 8
    assert steps.prefill_tokens.max() >= 1500
    assert steps.chunk_context.max() >= 1000


def test_drift_is_taken_out(drifting: Profile) -> None:
    steps = drifting.samples
    true_s = _true_s(steps)
    raw = np.abs(np.log(steps.exec_s / true_s))
    ratio = np.log(steps.exec_s * steps.speed / true_s)
    normalised = np.abs(ratio - np.median(ratio))  # the reference speed is the median one
    assert np.median(normalised) < 0.4 * np.median(raw)
    assert drifting.facts["sentinel_spread"] > 0.2
    assert drifting.report.worst_median < 0.06


def test_the_budget_is_kept(quiet: Profile, drifting: Profile) -> None:
    for done in (quiet, drifting):
        assert done.facts["elapsed_s"] < 1.1 * done.facts["budget_s"]
        assert done.outcomes.num_requests > 10


def test_sampling_stops_early_when_the_error_no_longer_falls() -> None:
    long = _profile(budget_s=500.0, noise=0.2)
    assert long.facts["stopped_early"] is True
    assert long.facts["elapsed_s"] < 400.0


def test_facts_are_plain_and_complete(quiet: Profile) -> None:
    facts = json.loads(json.dumps(quiet.facts, allow_nan=False))
    assert facts["trace_digest"] == _trace().digest()
    for name in ("engine", "version", "device", "resolved", "num_kv_blocks", "block_size"):
        assert facts[name] is not None
    assert quiet.model.facts["provenance"] == facts["provenance"]


def test_folder_round_trip(drifting: Profile, tmp_path: Path) -> None:
    drifting.save(tmp_path / "profile")
    again = Profile.load(tmp_path / "profile")
    assert again.facts == json.loads(json.dumps(drifting.facts))
    assert again.report == drifting.report
    assert again.outcomes.num_requests == drifting.outcomes.num_requests
    np.testing.assert_array_equal(again.samples.speed, drifting.samples.speed)
    assert again.model.predict(again.samples).tobytes() == (
        drifting.model.predict(drifting.samples).tobytes()
    )


def test_a_damaged_folder_is_refused(quiet: Profile, tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="profile again"):
        Profile.load(tmp_path / "nowhere")
    quiet.save(tmp_path)
    facts = tmp_path / "facts.json"
    facts.write_text(facts.read_text().replace('"schema_version": 1', '"schema_version": 0'))
    with pytest.raises(ResultsError, match="schema version 0"):
        Profile.load(tmp_path)


def test_progress_goes_from_nothing_to_all() -> None:
    seen: list[tuple[int, int]] = []
    with start_engine(EngineSpec("fake", "fake")) as engine:
        profile(
            engine,
            _trace(),
            budget_s=40.0,
            seed=0,
            progress=lambda done, all_: seen.append((done, all_)),
        )
    assert seen == sorted(seen)
    assert seen[-1] == (400, 400)


def test_refusals() -> None:
    with (
        start_engine(EngineSpec("fake", "fake")) as engine,
        pytest.raises(InputError, match="10 s"),
    ):
        profile(engine, _trace(), budget_s=3.0, seed=0)
    short = EngineSpec("fake", "fake", EngineConfig(max_model_len=8))
    with start_engine(short) as engine, pytest.raises(InputError, match="max_model_len = 8"):
        profile(engine, _trace(), budget_s=30.0, seed=0)


def test_the_sentinel_takes_the_time_of_its_batches() -> None:
    with start_engine(EngineSpec("fake", "fake")) as engine:
        seconds = run_sentinel(engine)
    prompt = known.STEP_S + 128 * known.PREFILL_TOKEN_S + known.PAIR_S * 128 * 129 / 2
    decode = known.STEP_S + known.DECODE_S + known.CONTEXT_S * 131.5
    assert seconds == pytest.approx(prompt + 8 * decode)


def test_speed_follows_readings_and_ignores_a_spike() -> None:
    base = Reading(0.0, 1.0, prefill_s=0.0, decode_s=0.0, frontend_in_s=0.0, frontend_out_s=0.0)
    slow_after = [1.0] * 10 + [2.0] * 11
    slow_after[3] = 9.0
    readings = [
        replace(base, start_s=2.0 * i, end_s=2.0 * i, prefill_s=s) for i, s in enumerate(slow_after)
    ]
    assert smoothed_s(readings)[3] == 1.0
    assert reference_s(readings) == 2.0
    np.testing.assert_allclose(speed_at(readings, np.array([0.0, 6.0, 40.0])), [2.0, 2.0, 1.0])


_LIMITS = Limits(
    step_budget=2048,
    num_seqs=128,
    request_tokens=2064,
    kv_tokens=200_000,
    block_size=128,
    prefill_token_s=1e-4,
    decode_s=5e-3,
)


def _some(limits: Limits, seed: int, rounds: int = 4) -> Iterator[Episode]:
    for round_ in islice(episodes(limits, seed), rounds):
        yield from round_


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"step_budget": 64, "num_seqs": 64},
        {"step_budget": 16, "num_seqs": 1, "request_tokens": 64, "block_size": 16},
        {"step_budget": 16384, "num_seqs": 1024, "request_tokens": 131_072},
        {"kv_tokens": 30_000},
    ],
)
def test_episodes_stay_within_what_the_engine_takes(change: dict[str, int]) -> None:
    limits = replace(_LIMITS, **change)
    for episode in _some(limits, seed=3):
        sizes = list(zip(episode.prompt_tokens, episode.output_tokens, strict=True))
        blocks = sum(-(-(p + o) // limits.block_size) for p, o in sizes)
        assert max(p + o for p, o in sizes) <= limits.request_tokens
        assert min(min(p, o) for p, o in sizes) >= 1
        assert 1 <= episode.step_budget <= limits.step_budget
        assert blocks * limits.block_size <= limits.kv_tokens


def test_episodes_are_seeded_and_shuffled() -> None:
    assert list(_some(_LIMITS, 5)) == list(_some(_LIMITS, 5))
    first, second = islice(episodes(_LIMITS, 5), 2)
    kinds = [[e.kind for e in round_] for round_ in (first, second)]
    assert kinds[0] != kinds[1]
    assert sorted(kinds[0]) == sorted(kinds[1])
