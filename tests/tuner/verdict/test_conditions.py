"""Traffic under conditions, request by request."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_verdict import SLO, aggregated, build, split, steady

from profiler.errors import TraceError
from profiler.traffic.trace import Trace
from tuner.metrics import compute
from tuner.simulator.fleet import simulate_fleet
from tuner.verdict.bench import Bench
from tuner.verdict.conditions import OWN, scale_prompts, typical_piece
from tuner.windows import draw_windows


def with_prefixes(trace: Trace, block: int = 16) -> Trace:
    """Every prompt begins like the one before last."""
    sizes = -(-trace.prompt_tokens // block)
    hashes = [1000 * (i % 2) + np.arange(size) for i, size in enumerate(sizes)]
    return replace(
        trace,
        prefix_hashes=np.concatenate(hashes).astype(np.int64),
        prefix_offsets=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        prefix_block_tokens=block,
    )


@pytest.mark.parametrize("factor", [0.125, 0.5, 3.0])
def test_prompts_are_scaled_one_by_one(factor: float) -> None:
    trace = with_prefixes(steady(50))
    found = scale_prompts(trace, factor, 2000)
    for i in range(trace.num_requests):
        own, output = int(trace.prompt_tokens[i]), int(trace.output_tokens[i])
        expected = max(1, int(np.rint(own * factor)))
        if factor > 1:
            expected = min(expected, max(2000 - output, own))
        assert found.prompt_tokens[i] == expected
    assert found.prefix_block_tokens == max(1, round(16 * factor))
    assert found.arrival_s is trace.arrival_s
    # every rule of a trace still holds
    Trace.build(
        found.arrival_s,
        found.prompt_tokens,
        found.output_tokens,
        prefix_hashes=found.prefix_hashes,
        prefix_offsets=found.prefix_offsets,
        prefix_block_tokens=found.prefix_block_tokens,
    )


def test_own_length_changes_nothing() -> None:
    trace = steady(50)
    assert scale_prompts(trace, 1.0, 100) is trace


def test_bench_traffic() -> None:
    trace, piece = steady(200), steady(100, seed=3)
    bench = Bench((trace, piece), SLO, build, 16_384, windows=3)
    assert bench.traffic(OWN) is trace
    assert bench.traffic(replace(OWN, piece=1)) is piece
    assert bench.traffic(OWN.at("load", 2.0)).rate_rps == pytest.approx(2 * trace.rate_rps)
    window = bench.traffic(replace(OWN, window=2))
    assert window.digest() == draw_windows(trace, 3)[1].digest()


def test_typical_piece() -> None:
    calm, rush = steady(2000, 5.0), steady(300, 50.0, seed=1)
    whole = Trace.build(
        np.concatenate([calm.arrival_s, calm.duration_s + 1 + rush.arrival_s]),
        np.concatenate([calm.prompt_tokens, rush.prompt_tokens]),
        np.concatenate([calm.output_tokens, rush.output_tokens]),
    )
    piece = typical_piece(whole, 400)
    assert piece.num_requests == 400
    assert piece.rate_rps == pytest.approx(whole.rate_rps)
    assert piece.prompt_tokens.mean() == pytest.approx(whole.prompt_tokens.mean(), rel=0.1)
    assert typical_piece(whole, 5000) is whole


def test_score_is_good_requests_per_second_and_gpu() -> None:
    trace = steady(150, 8.0)
    bench = Bench((trace,), SLO, build, 16_384)
    for option in (aggregated(2), split(1, 1)):
        score, fleet = bench(option, OWN), build(option.plan)
        outcomes = simulate_fleet(trace, fleet, itl_limit_s=SLO.itl_limit_s, seed=0).outcomes
        metrics = compute(outcomes, SLO)
        assert score.attainment == metrics.slo_attainment
        assert score.goodput == pytest.approx(metrics.slo_attainment * trace.rate_rps / 2)
        assert score.violation == metrics.worst_violation
        assert score.refused is None


def test_a_slow_link_slows_the_split_fleet_alone() -> None:
    bench = Bench((steady(60, 8.0),), SLO, build, 16_384)
    slow = OWN.at("link_bandwidth", 1 / 64)
    metrics = [bench.metrics(split(1, 1), where) for where in (OWN, slow)]
    assert metrics[1].ttft_p99_s > metrics[0].ttft_p99_s
    one, other = (bench(aggregated(2), where) for where in (OWN, slow))
    assert one == other


def test_a_refused_plan_scores_nothing() -> None:
    score = Bench((steady(20),), SLO, build)(aggregated(2, 512), OWN)
    assert (score.goodput, score.meets_slo) == (0.0, False)
    assert "max_num_seqs" in str(score.refused)


def test_images_have_no_scale() -> None:
    trace = replace(steady(5), images=object())
    with pytest.raises(TraceError, match="images"):
        scale_prompts(trace, 2.0, None)
