"""Generators: seeds, rates, burstiness, shapes, quantile tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest, spearmanr

from profiler.errors import TraceError
from profiler.traffic.published import load_figures, measure_figures, published_names
from profiler.traffic.synthetic import QuantileTable, SynthSpec, like, synthesize

TABLE = QuantileTable((0.0, 0.5, 1.0), (10.0, 100.0, 1000.0))
SPEC = SynthSpec(duration_s=2000.0, rate_rps=5.0, prompt=TABLE, output=TABLE)


@pytest.mark.parametrize("arrivals", ["poisson", "gamma", "diurnal"])
def test_same_seed_same_bytes_and_the_asked_rate(arrivals: str) -> None:
    spec = replace(SPEC, arrivals=arrivals, period_s=500.0)
    trace = synthesize(spec)
    assert trace.digest() == synthesize(spec).digest()
    assert trace.digest() != synthesize(replace(spec, seed=1)).digest()
    assert trace.num_requests == pytest.approx(10_000, rel=0.06)
    assert trace.duration_s <= 2000.0


def test_poisson_gaps_are_exponential() -> None:
    gaps = np.diff(synthesize(SPEC).arrival_s)
    assert kstest(gaps * 5.0, "expon").pvalue > 0.01


@pytest.mark.parametrize("gap_cv", [0.5, 1.0, 3.0])
def test_gamma_gaps_have_the_asked_variation(gap_cv: float) -> None:
    gaps = np.diff(synthesize(replace(SPEC, arrivals="gamma", gap_cv=gap_cv)).arrival_s)
    assert gaps.std() / gaps.mean() == pytest.approx(gap_cv, rel=0.1)


def test_diurnal_rate_rises_from_its_lowest_to_the_peak() -> None:
    spec = replace(SPEC, arrivals="diurnal", period_s=2000.0, peak_to_mean=1.8)
    counts, _ = np.histogram(synthesize(spec).arrival_s, bins=20, range=(0, 2000))
    assert counts[9:11].mean() == pytest.approx(900, rel=0.1)
    assert counts[[0, 19]].mean() == pytest.approx(100, rel=0.35)


def test_shape_repeats_and_leaves_silent_bins_empty() -> None:
    spec = replace(SPEC, duration_s=400.0, shape=(1.0, 0.0), shape_bin_s=50.0)
    counts, _ = np.histogram(synthesize(spec).arrival_s, bins=8, range=(0, 400))
    assert (counts[1::2] <= 5).all()
    assert counts[::2] == pytest.approx(np.full(4, 500), rel=0.2)


def test_lengths_follow_their_table_and_rank_correlation() -> None:
    trace = synthesize(replace(SPEC, rank_correlation=-0.6))
    assert np.median(trace.prompt_tokens) == pytest.approx(100, rel=0.05)
    assert trace.prompt_tokens.min() >= 10 and trace.prompt_tokens.max() <= 1000
    rank = spearmanr(trace.prompt_tokens, trace.output_tokens).statistic
    assert rank == pytest.approx(-0.6, abs=0.03)


def test_quantile_table_text() -> None:
    assert QuantileTable.parse("0=10,0.5=100,1=1000") == TABLE
    assert QuantileTable.parse("64").at(np.array([0.0, 0.3, 1.0])).tolist() == [64, 64, 64]
    assert TABLE.at(np.array([0.0, 0.25, 0.5, 1.0])).tolist() == [10, 55, 100, 1000]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.1=5,1=9", "rising from 0 to 1"),
        ("0=5,1=9,0.5=7", "rising from 0 to 1"),
        ("0=9,1=5", "never fall"),
        ("0=0,1=5", "at least 1 token"),
        ("0=1,1=nan", "at least 1 token"),
        ("-5", "at least 1 token"),
        ("0=1,many", "PROBABILITY=TOKENS"),
        ("many", "PROBABILITY=TOKENS"),
    ],
)
def test_bad_quantile_table(text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        QuantileTable.parse(text)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"duration_s": 0.0}, "duration_s must be above 0 s, got 0.0"),
        ({"rate_rps": float("nan")}, "rate_rps must be above 0"),
        ({"arrivals": "poison"}, "arrivals must be one of poisson, gamma, diurnal, got poison"),
        ({"gap_cv": -1.0}, "gap_cv must be above 0"),
        ({"peak_to_mean": 2.5}, "peak_to_mean must be from 1 to 2"),
        ({"rank_correlation": 1.5}, "rank_correlation must be from -1 to 1"),
        ({"seed": -1}, "seed must be 0 or above"),
        ({"shape": ()}, "a rate shape needs"),
        ({"shape": (0.0, 0.0)}, "a rate shape needs"),
        ({"shape": (1.0, -1.0)}, "a rate shape needs"),
        ({"rate_rps": 1e6}, "more than 50000000 requests"),
    ],
)
def test_bad_spec(changes: dict[str, object], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        replace(SPEC, **changes)


def test_no_request_at_all() -> None:
    with pytest.raises(TraceError, match=r"no request falls into 0\.001 s at 0\.01 requests/s"):
        synthesize(replace(SPEC, duration_s=0.001, rate_rps=0.01))
    silent = replace(SPEC, duration_s=10.0, shape=(0.0, 1.0), shape_bin_s=50.0)
    with pytest.raises(TraceError, match="no request falls"):
        synthesize(silent)


def test_like_takes_duration_rate_and_seed() -> None:
    assert published_names() == [
        "arxiv-summaries",
        "azure-code-2023",
        "azure-conv-2023",
        "mooncake-conv-2025",
        "mooncake-long-2025",
    ]
    short = like(duration_s=600.0, seed=3)
    figures = load_figures("azure-conv-2023")
    recorded = np.mean(figures.rate_rps[:10])
    assert short.rate_rps == pytest.approx(recorded, rel=0.06)
    assert like(duration_s=600.0, rate_rps=2.0).num_requests == pytest.approx(1200, rel=0.1)
    assert like(duration_s=600.0, seed=3).digest() == short.digest()
    twice = like(duration_s=2 * figures.duration_s)
    assert twice.num_requests == pytest.approx(2 * figures.num_requests, rel=0.02)


def test_like_something_unknown() -> None:
    with pytest.raises(TraceError, match="no published figures called 'x'; choose from arxiv-"):
        like("x")


def test_figures_of_a_synthetic_trace_are_those_it_was_made_from() -> None:
    spec = replace(SPEC, arrivals="gamma", gap_cv=1.5, rank_correlation=0.4)
    figures = measure_figures(synthesize(spec), "made", "test")
    assert figures.gap_cv == pytest.approx(1.5, rel=0.1)
    assert figures.rank_correlation == pytest.approx(0.4, abs=0.05)
    assert np.mean(figures.rate_rps) == pytest.approx(5.0, rel=0.05)
    middle = figures.probabilities.index(0.5)
    assert figures.prompt_tokens[middle] == pytest.approx(100, rel=0.05)
