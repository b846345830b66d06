"""Simulated requests per second on one core. Run by `make bench`; prints, and asserts only that the
figures exist."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.latency.base import load_latency_model
from profiler.traffic.readers import read_trace
from tuner.simulator import simulate

CONFIG = EngineConfig(
    max_num_batched_tokens=2048,
    max_num_seqs=256,
    max_model_len=32768,
    block_size=16,
    enable_prefix_caching=False,
)
NUM_KV_BLOCKS = 55_000
"""about 880,000 tokens: an 8B model on one H200"""


@pytest.mark.bench
@pytest.mark.parametrize("times_the_rate", [1.0, 2.0, 3.0])
def test_azure_conversation_requests_per_second(
    azure_trace_path: Path, times_the_rate: float
) -> None:
    trace = read_trace(azure_trace_path).trace
    rate = trace.num_requests / trace.duration_s * times_the_rate
    scaled = trace.scale_rate(rate)
    model = load_latency_model("example-8b")
    runs = [
        simulate(scaled, CONFIG, model, num_kv_blocks=NUM_KV_BLOCKS, itl_limit_s=np.array([0.05]))
        for _ in range(9)
    ][1:]
    per_second = [trace.num_requests / run.simulation_s for run in runs]
    steps = runs[0].num_steps
    print(
        f"\nAzure conversation 2023, {trace.num_requests:,} requests at {rate:.1f}/s "
        f"({times_the_rate:g}x the recorded rate), one core, KV accounting and ITL distribution "
        f"on: {statistics.median(per_second):,.0f} simulated requests/s "
        f"(min {min(per_second):,.0f}, max {max(per_second):,.0f} of 8 runs); {steps:,} steps, "
        f"{1e9 * statistics.median(r.simulation_s for r in runs) / steps:.0f} ns per step"
    )
    assert steps > 0
