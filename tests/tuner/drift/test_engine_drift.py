"""An engine's histograms against what the latency model predicts, and its version."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.errors import InputError
from profiler.latency.base import load_latency_model
from profiler.outcomes import Outcomes
from profiler.traffic.synthetic import like
from tests.tuner.drift.made_scrape import metrics_text
from tuner.drift.engine import (
    E2E,
    ITL,
    LEAST_SHARE,
    TOLERANCE,
    TTFT,
    EngineDrift,
    Times,
    compare_engine,
    settings_drift,
    times_of,
)
from tuner.drift.finding import Finding
from tuner.drift.scrape import Scrape, parse_scrape
from tuner.drift.version import compare_version
from tuner.simulator import simulate
from tuner.windows import each_window

CONFIG = EngineConfig(
    max_num_batched_tokens=1024, max_num_seqs=128, max_model_len=16384, block_size=16
)
TRACE = like(duration_s=60.0, rate_rps=4.0, seed=5)


def run(seed: int, trace=TRACE) -> Outcomes:
    model = load_latency_model("example-8b")
    return simulate(trace, CONFIG, model, num_kv_blocks=4000, seed=seed).outcomes


@pytest.fixture(scope="module")
def predicted() -> Outcomes:
    return run(0)


@pytest.fixture(scope="module")
def drawn() -> list[Outcomes]:
    return [run(i, w) for i, w in enumerate(each_window(TRACE, 150), start=1)]


def seen(outcomes: Outcomes, slower: float = 1.0) -> Scrape:
    return parse_scrape(metrics_text(outcomes, slower), "made")


def drifted(drift: EngineDrift) -> set[str]:
    return {f.quantity.split(" at most")[0] for f in drift.findings if f.drifted}


@pytest.mark.parametrize("seed", range(3))
def test_shares_and_mean_equal_counting(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, weight = rng.integers(0, 6, 20).astype(np.float64), rng.integers(0, 3, 20)
    values[3] = np.nan
    times = Times.of(values, weight.astype(np.float64))
    pooled = [v for v, w in zip(values, weight, strict=True) for _ in range(w) if v == v]
    bounds = np.array([-1.0, 0.0, 2.5, 3.0, 9.0])
    expected = [sum(v <= b for v in pooled) / len(pooled) for b in bounds]
    assert times.shares(bounds) == pytest.approx(expected)
    assert times.mean == pytest.approx(np.mean(pooled))


def test_effects_equal_their_definitions(predicted: Outcomes, drawn: list[Outcomes]) -> None:
    drift = compare_engine(seen(run(77), 1.6), predicted, drawn[:20], {})
    gaps = np.repeat(predicted.gap_s, predicted.gap_weight.sum(axis=1))
    other = run(77)
    slow = 1.6 * np.repeat(other.gap_s, other.gap_weight.sum(axis=1))
    mean, shares = (f for f in drift.findings if f.quantity.startswith(("mean ITL", "ITL")))
    assert (mean.before, mean.after) == pytest.approx((gaps.mean(), slow.mean()))
    assert mean.effect == pytest.approx(slow.mean() / gaps.mean() - 1)
    histogram = seen(other, 1.6).histograms["vllm:inter_token_latency_seconds"]
    outside = 0.0
    for bound in histogram.bounds[:-1]:
        share = (slow <= bound).mean()
        low = (gaps <= bound / (1 + TOLERANCE)).mean()
        high = (gaps <= bound * (1 + TOLERANCE)).mean()
        outside = max(outside, low - share, share - high)
    assert shares.effect == pytest.approx(outside)
    assert shares.least_effect == LEAST_SHARE


def test_a_slower_engine_is_told_from_the_same_one(
    predicted: Outcomes, drawn: list[Outcomes]
) -> None:
    window = next(each_window(TRACE, 2))
    for outcomes in (run(1000), run(1001, window)):
        drift = compare_engine(seen(outcomes), predicted, drawn, {})
        assert not drifted(drift) and not drift.not_judged
        assert len(drift.findings) == 6
    slow = compare_engine(seen(run(1000), 1.5), predicted, drawn, {})
    assert {"mean TTFT", "mean ITL", "mean end-to-end latency"} <= drifted(slow)
    # what the latency model was off by when it was confirmed is no drift later
    known = dict.fromkeys((TTFT, ITL, E2E), 0.5)
    assert not drifted(compare_engine(seen(run(1000), 1.5), predicted, drawn, known))


def test_histograms_that_say_nothing(predicted: Outcomes) -> None:
    def windows() -> Iterator[Outcomes]:
        yield predicted

    some = seen(predicted)
    del some.histograms["vllm:e2e_request_latency_seconds"]
    drift = compare_engine(some, predicted, windows(), {})
    assert drift.not_judged == [f"{E2E}: vllm:e2e_request_latency_seconds has 0 observations"]
    assert len(drift.to_dict()["findings"]) == 4
    with pytest.raises(InputError, match="none of vLLM's latency histograms"):
        compare_engine(Scrape({}, {}), predicted, windows(), {})


def test_times_are_those_of_the_outcomes(predicted: Outcomes) -> None:
    times = times_of(predicted)
    assert times[TTFT].mean == pytest.approx(
        np.nanmean(predicted.first_token_s - predicted.arrival_s)
    )
    assert times[E2E].mean > times[TTFT].mean > times[ITL].mean
    assert math.isnan(Times.of(np.array([np.nan]), np.ones(1)).mean)


def test_settings_the_engine_runs_with() -> None:
    cache = {"num_gpu_blocks": "2000", "block_size": "16", "enable_prefix_caching": "True"}
    expected = {"num_gpu_blocks": 2100, "block_size": 16, "enable_prefix_caching": True}
    assert settings_drift(cache, expected) == []
    assert settings_drift({}, expected) == []
    found = settings_drift(cache, {"num_gpu_blocks": 2741, "enable_prefix_caching": False})
    assert found == [
        "the engine has 2000 KV blocks, the study counted on 2741",
        "the engine runs with enable_prefix_caching=True, not False",
    ]


@pytest.mark.parametrize(
    ("running", "drifted_", "note"),
    [
        (None, False, ""),
        ("0.32.0+cpu", False, ""),
        ("0.32.1", False, "patch release"),
        ("0.31.0", True, "another release"),
        ("0.33.0", True, "was not compared with the simulator"),
        ("main", True, "another release"),
    ],
)
def test_versions(running: str | None, drifted_: bool, note: str) -> None:
    found = compare_version({"engine": "vllm", "version": "0.32.0"}, running, {})
    assert found.drifted == drifted_
    assert note in found.note
    assert found.to_dict()["running"] == running


def test_a_finding_knows_its_unit(predicted: Outcomes, drawn: list[Outcomes]) -> None:
    findings: list[Finding] = compare_engine(seen(predicted), predicted, drawn[:5], {}).findings
    assert {f.unit for f in findings} == {"s", "of all"}
