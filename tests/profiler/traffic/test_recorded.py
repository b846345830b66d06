"""Real recorded traffic, where it is at hand: read right, examined right, resembled closely."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ks_2samp, spearmanr

from profiler.traffic.doctor import diagnose, prefix_sharing
from profiler.traffic.published import load_figures, measure_figures
from profiler.traffic.readers import ReadResult, read_trace
from profiler.traffic.synthetic import like


@pytest.fixture(scope="module")
def azure(azure_trace_path: Path) -> ReadResult:
    return read_trace(azure_trace_path)


@pytest.fixture(scope="module")
def mooncake(mooncake_trace_path: Path) -> ReadResult:
    return read_trace(mooncake_trace_path)


def test_azure_is_read_whole(azure: ReadResult) -> None:
    assert azure.report.format == "azure"
    assert azure.trace.num_requests == azure.report.rows_read == 19_366
    assert azure.trace.duration_s / 60 == pytest.approx(58.4, abs=0.05)
    assert azure.report.dropped == () and azure.report.repaired == ()
    assert azure.trace.prompt_tokens[:3].tolist() == [374, 396, 879]
    assert azure.trace.output_tokens[-1] == 183
    assert int(azure.trace.prompt_tokens.sum()) == 22_361_870
    assert diagnose(azure.trace).artefacts == ()


def test_mooncake_is_read_whole_and_its_clock_is_found_out(mooncake: ReadResult) -> None:
    trace = mooncake.trace
    assert mooncake.report.format == "mooncake"
    assert trace.num_requests == mooncake.report.rows_read == 12_031
    assert trace.duration_s / 60 == pytest.approx(58.9, abs=0.06)
    assert trace.prompt_tokens.max() == 126_195
    assert trace.prefix_offsets is not None and trace.prefix_hashes is not None
    assert len(trace.prefix_hashes) == (-(-trace.prompt_tokens // 512)).sum()
    diagnosis = diagnose(trace)
    clock, burst = diagnosis.artefacts
    assert "grid of 3 s" in clock and "up to 28 requests" in burst
    assert diagnosis.prefix_sharing is not None
    assert diagnosis.prefix_sharing["hit_token_share"] == pytest.approx(0.3734, abs=5e-5)


def test_mooncake_survives_parquet_slice_and_cap(mooncake: ReadResult, tmp_path: Path) -> None:
    mooncake.trace.save(tmp_path / "m.parquet")
    assert read_trace(tmp_path / "m.parquet").trace.digest() == mooncake.trace.digest()
    part = mooncake.trace.slice(600, 1200).cap(max_prompt_tokens=2048)
    assert part.prefix_offsets is not None
    assert (part.prefix_offsets[1:] - part.prefix_offsets[:-1]).max() == 4


@pytest.mark.parametrize("seed", range(3))
def test_like_azure_has_its_lengths_and_rate(azure: ReadResult, seed: int) -> None:
    made, real = like("azure-conv-2023", seed=seed), azure.trace
    assert ks_2samp(made.prompt_tokens, real.prompt_tokens).statistic <= 0.05
    assert ks_2samp(made.output_tokens, real.output_tokens).statistic <= 0.05
    assert ks_2samp(made.arrival_s, real.arrival_s).statistic <= 0.05
    assert made.num_requests == pytest.approx(real.num_requests, rel=0.03)
    assert spearmanr(made.prompt_tokens, made.output_tokens).statistic == pytest.approx(
        spearmanr(real.prompt_tokens, real.output_tokens).statistic, abs=0.03
    )


def test_shipped_figures_are_those_of_the_recording(azure: ReadResult) -> None:
    shipped = load_figures("azure-conv-2023")
    assert measure_figures(azure.trace, shipped.name, shipped.source) == shipped


def test_shipped_figures_are_those_of_the_code_recording(azure_code_path: Path) -> None:
    shipped = load_figures("azure-code-2023")
    trace = read_trace(azure_code_path).trace
    assert measure_figures(trace, shipped.name, shipped.source) == shipped


def test_shipped_figures_are_those_of_mooncake(mooncake: ReadResult) -> None:
    shipped, trace = load_figures("mooncake-conv-2025"), mooncake.trace
    assert measure_figures(trace, shipped.name, shipped.source) == shipped
    assert shipped.gap_cv == 1.0  # its clock is coarser than its gaps
    long = np.flatnonzero((trace.prompt_tokens >= 10_000) & (trace.prompt_tokens <= 60_000))
    shipped = load_figures("mooncake-long-2025")
    measured = measure_figures(trace.take(long), shipped.name, shipped.source)
    assert replace(measured, sharing=None) == shipped


def test_like_mooncake_shares_what_it_shares(mooncake: ReadResult) -> None:
    made, real = (prefix_sharing(t) for t in (like("mooncake-conv-2025"), mooncake.trace))
    assert made is not None and real is not None
    assert made["hit_token_share"] == pytest.approx(real["hit_token_share"], abs=0.03)
    assert made["num_distinct_blocks"] == pytest.approx(real["num_distinct_blocks"], rel=0.06)
