"""The compiled kernel against its slow twin, on random small traces over every setting."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from cases import Case, random_case
from reference import Job, Reference, Row

from profiler.latency.base import load_latency_model
from profiler.latency.step_time import step_interval
from tuner.simulator import StepRecord, simulate
from tuner.simulator.run import build_limits

EXAMPLE = load_latency_model("example-8b")
COLD = {"cold_decode_s": 2e-3, "cold_prefill_s": 3e-3, "idle_prefill_s": 1e-3}
MODEL = dataclasses.replace(EXAMPLE, params=EXAMPLE.params._replace(**COLD), residuals=np.ones(1))


def jobs_of(case: Case) -> list[Job]:
    """The requests of `case` as the reference wants them."""
    length = case.config.max_model_len or 0
    trace = case.trace
    columns = zip(trace.arrival_s, trace.prompt_tokens, trace.output_tokens, strict=True)
    return [
        Job(i, float(t) + MODEL.frontend_in_s, int(p), int(min(o, length - p)))
        for i, (t, p, o) in enumerate(columns)
    ]


def run_reference(case: Case) -> Reference:
    limits = build_limits(case.config, case.num_kv_blocks, False)
    reference = Reference(
        jobs_of(case),
        limits,
        case.num_kv_blocks - 1,
        lambda batch, running: step_interval(MODEL.params, batch, running, limits.overlapped),
    )
    reference.run()
    return reference


def rows_of(record: StepRecord) -> list[Row]:
    """The kernel's record as the reference's rows."""
    rows: list[Row] = []
    for step in range(int(record.step.max()) + 1):
        of = np.flatnonzero(record.step == step)
        victims = [int(record.request[i]) for i in of if record.tokens[i] < 0]
        busy = [i for i in of if record.tokens[i] > 0]
        scheduled = [
            (int(record.request[i]), int(record.tokens[i]), int(record.before[i])) for i in busy
        ]
        rows.append(Row(scheduled, sorted(victims), int(record.free[busy[-1]])))
    return rows


@pytest.mark.parametrize("seed", range(300))
def test_kernel_does_what_the_reference_does(seed: int) -> None:
    case = random_case(seed)
    reference = run_reference(case)
    limit = np.array([0.02])
    result = simulate(
        case.trace,
        case.config,
        MODEL,
        num_kv_blocks=case.num_kv_blocks,
        itl_limit_s=limit,
        record=True,
    )
    assert result.record is not None
    assert rows_of(result.record) == reference.rows
    gaps = [np.diff(job.token_s) for job in reference.jobs]
    out = MODEL.frontend_out_s
    np.testing.assert_allclose(
        result.outcomes.first_token_s, [job.token_s[0] + out for job in reference.jobs], rtol=1e-9
    )
    np.testing.assert_allclose(
        result.outcomes.finish_s, [job.token_s[-1] + out for job in reference.jobs], rtol=1e-9
    )
    pooled = np.repeat(result.outcomes.gap_s, result.outcomes.gap_weight[:, 0])
    np.testing.assert_allclose(np.sort(pooled), np.sort(np.concatenate(gaps)), rtol=1e-6)
    clear = all(np.abs(g - limit[0]).min(initial=1.0) > 1e-9 for g in gaps)
    if clear:
        assert result.outcomes.num_slow_gaps.tolist() == [int((g > limit[0]).sum()) for g in gaps]


@pytest.mark.parametrize("seed", range(60))
def test_quiet_steps_change_nothing(seed: int) -> None:
    """Without the record, pure decode phases are run in one go; the results are the same."""
    case = random_case(seed)
    options = {"num_kv_blocks": case.num_kv_blocks, "itl_limit_s": np.array([0.02])}
    slow = simulate(case.trace, case.config, MODEL, record=True, **options)
    fast = simulate(case.trace, case.config, MODEL, record=False, **options)
    assert fast.num_steps == slow.num_steps
    assert fast.num_preemptions == slow.num_preemptions
    for field in dataclasses.fields(slow.outcomes):
        a, b = getattr(slow.outcomes, field.name), getattr(fast.outcomes, field.name)
        np.testing.assert_array_equal(a, b, err_msg=field.name)


def test_cases_cover_preemption_late_decodes_and_both_ways_of_stepping() -> None:
    """The comparison above means something only when the rare rules are reached."""
    preempted = late = overlapped = 0
    for seed in range(300):
        case = random_case(seed)
        limits = build_limits(case.config, case.num_kv_blocks, False)
        late += limits.may_starve
        overlapped += limits.overlapped
        preempted += simulate(
            case.trace, case.config, MODEL, num_kv_blocks=case.num_kv_blocks
        ).num_preemptions
    assert preempted > 500
    assert late >= 15
    assert 100 < overlapped < 200
