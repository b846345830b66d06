"""Simulated requests per second on one core, growth and memory. Run by `make bench`; prints, and
asserts only that the figures exist."""

from __future__ import annotations

import dataclasses
import statistics
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.latency.base import load_latency_model
from profiler.traffic.readers import read_trace
from profiler.traffic.trace import Trace
from tuner.simulator import Simulation, simulate

AZURE = EngineConfig(
    max_num_batched_tokens=2048,
    max_num_seqs=256,
    max_model_len=32768,
    block_size=16,
    enable_prefix_caching=False,
)
AZURE_BLOCKS = 55_000
"""about 880,000 tokens: an 8B model on one H200"""
MOONCAKE = EngineConfig(
    max_num_batched_tokens=8192,
    max_num_seqs=256,
    max_model_len=131_072,
    block_size=512,
    enable_prefix_caching=True,
    async_scheduling=True,
)
ITL_LIMIT_S = np.array([0.05])
RUNS = 8


def repeat_run(trace: Trace, config: EngineConfig, blocks: int) -> tuple[Simulation, list[float]]:
    """The result, and the kernel's seconds of `RUNS` runs after a first one."""
    model = load_latency_model("example-8b")
    runs = [
        simulate(trace, config, model, num_kv_blocks=blocks, itl_limit_s=ITL_LIMIT_S)
        for _ in range(RUNS + 1)
    ][1:]
    return runs[0], [run.simulation_s for run in runs]


def report(name: str, trace: Trace, result: Simulation, seconds: list[float]) -> None:
    """One line."""
    n, middle = trace.num_requests, statistics.median(seconds)
    cached = result.cached_tokens / int(trace.prompt_tokens.sum())
    print(
        f"\n{name}, {n:,} requests at {trace.rate_rps:.1f}/s, one core, KV accounting and ITL "
        f"distribution on: {n / middle:,.0f} simulated requests/s (min {n / max(seconds):,.0f}, "
        f"max {n / min(seconds):,.0f} of {RUNS} runs); {result.num_steps:,} steps, "
        f"{1e9 * middle / result.num_steps:.0f} ns per step, {result.num_preemptions:,} "
        f"preemptions, {cached:.1%} of the prompt tokens cached"
    )


def stable_rate(trace: Trace) -> float:
    """Factor to the recorded rate (in steps of 5 %) up to which the queue just stays stable: the
    mean TTFT of the last tenth of the requests is below 2 s."""
    model, factor = load_latency_model("example-8b"), 1.0
    while True:
        scaled = trace.scale_rate(trace.rate_rps * factor * 1.05)
        done = simulate(scaled, AZURE, model, num_kv_blocks=AZURE_BLOCKS).outcomes
        last = slice(-trace.num_requests // 10, None)
        if np.mean(done.first_token_s[last] - done.arrival_s[last]) >= 2.0:
            return factor
        factor *= 1.05


@pytest.mark.bench
def test_azure_conversation_at_the_recorded_and_at_the_highest_stable_rate(
    azure_trace_path: Path,
) -> None:
    trace = read_trace(azure_trace_path).trace
    for factor in (1.0, stable_rate(trace)):
        scaled = trace.scale_rate(trace.rate_rps * factor)
        result, seconds = repeat_run(scaled, AZURE, AZURE_BLOCKS)
        report(f"Azure conversation 2023, {factor:.2f}x the recorded rate", scaled, result, seconds)
        assert result.num_steps > 0


@pytest.mark.bench
@pytest.mark.parametrize(("block_size", "num_kv_blocks"), [(512, 1720), (16, 55_000)])
def test_mooncake_conversation_with_prefix_caching(
    block_size: int, num_kv_blocks: int, mooncake_trace_path: Path
) -> None:
    trace = read_trace(mooncake_trace_path).trace
    config = dataclasses.replace(MOONCAKE, block_size=block_size)
    result, seconds = repeat_run(trace, config, num_kv_blocks)
    report(f"Mooncake conversation, blocks of {block_size} tokens", trace, result, seconds)
    assert result.cached_tokens > 0


def repeated(trace: Trace, times: int) -> Trace:
    """The trace, `times` times on end."""
    period = trace.duration_s + 1 / trace.rate_rps
    return Trace(
        np.concatenate([trace.arrival_s + i * period for i in range(times)]),
        np.tile(trace.prompt_tokens, times),
        np.tile(trace.output_tokens, times),
    )


def measure_growth(path: Path, times: int) -> None:
    """Print time and peak memory per request of `times` traces on end; in a process of its own."""
    model, trace = load_latency_model("example-8b"), read_trace(path).trace
    big = repeated(trace, times)
    simulate(trace.slice(0.0, 60.0), AZURE, model, num_kv_blocks=AZURE_BLOCKS)
    tracemalloc.start()
    simulate(big, AZURE, model, num_kv_blocks=AZURE_BLOCKS, itl_limit_s=ITL_LIMIT_S)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    spent = min(
        simulate(
            big, AZURE, model, num_kv_blocks=AZURE_BLOCKS, itl_limit_s=ITL_LIMIT_S
        ).simulation_s
        for _ in range(5)
    )
    n = big.num_requests
    print(
        f"Azure conversation {times} times on end, {n:,} requests: {1e6 * spent / n:.2f} us and "
        f"{peak / n:.0f} bytes of peak memory per request"
    )


@pytest.mark.bench
def test_growth(azure_trace_path: Path) -> None:
    """Ten and a hundred times the traffic."""
    print()
    for times in (1, 10, 100):
        done = subprocess.run(
            [sys.executable, __file__, str(azure_trace_path), str(times)],
            capture_output=True,
            text=True,
            check=True,
        )
        print(done.stdout.strip())
        assert "per request" in done.stdout


if __name__ == "__main__":
    measure_growth(Path(sys.argv[1]), int(sys.argv[2]))
