"""The compiled kernel against its slow twin, on random small traces over every setting."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
from reference import Reference

from tuner.simulator import simulate
from tuner.simulator.build import build_limits
from tuner.simulator.difftest.cases import random_case
from tuner.simulator.difftest.compare import MODEL, first_difference, run_kernel, run_other

ITL_LIMIT_S = 0.02


@pytest.mark.parametrize("seed", range(400))
def test_kernel_does_what_the_reference_does(seed: int) -> None:
    """Requests, tokens, preemptions, free blocks and queues at every step; then the times."""
    case = random_case(seed)
    rows, result = run_kernel(case, ITL_LIMIT_S)
    theirs, jobs = run_other(case, Reference, len(rows) + (0 if result.endless else 1))
    difference = first_difference(rows, theirs)
    assert difference is None, f"case {seed}, {case.config}\n{difference}"
    if result.endless:
        return
    outcomes, out = result.outcomes, MODEL.frontend_out_s
    first, last = [j.token_s[0] + out for j in jobs], [j.token_s[-1] + out for j in jobs]
    np.testing.assert_allclose(outcomes.first_token_s, first, rtol=1e-9)
    np.testing.assert_allclose(outcomes.finish_s, last, rtol=1e-9)
    gaps = [np.diff(job.token_s) for job in jobs]
    pooled = np.repeat(outcomes.gap_s, outcomes.gap_weight[:, 0])
    np.testing.assert_allclose(np.sort(pooled), np.sort(np.concatenate(gaps)), rtol=1e-6)
    if all(np.abs(g - ITL_LIMIT_S).min(initial=1.0) > 1e-9 for g in gaps):
        assert outcomes.num_slow_gaps.tolist() == [int((g > ITL_LIMIT_S).sum()) for g in gaps]


@pytest.mark.parametrize("seed", range(150))
def test_quiet_steps_change_nothing(seed: int) -> None:
    """Without the record, pure decode phases are run in one go; the results are the same."""
    case = random_case(seed)
    options = {
        "num_kv_blocks": case.num_kv_blocks,
        "itl_limit_s": np.array([0.02]),
        "acceptance": case.acceptance,
    }
    slow = simulate(case.trace, case.config, MODEL, record=True, **options)
    fast = simulate(case.trace, case.config, MODEL, record=False, **options)
    assert fast.num_steps == slow.num_steps
    assert fast.num_preemptions == slow.num_preemptions
    for field in dataclasses.fields(slow.outcomes):
        a, b = getattr(slow.outcomes, field.name), getattr(fast.outcomes, field.name)
        np.testing.assert_array_equal(a, b, err_msg=field.name)


def test_cases_cover_every_rule() -> None:
    """The comparison above means something only when the rare rules are reached."""
    preempted = late = overlapped = urgent = again = cached = preempted_drafting = 0
    methods: Counter[str | None] = Counter()
    for seed in range(600):
        case = random_case(seed)
        limits = build_limits(case.config, case.num_kv_blocks)
        late += limits.may_starve and not limits.priority
        overlapped += limits.overlapped
        result = run_kernel(case)[1]
        if case.acceptance is not None:
            methods[case.config.speculative_method] += result.num_accepted
            preempted_drafting += result.num_preemptions
            continue
        preempted += result.num_preemptions
        cached += result.cached_tokens > 0
        urgent += limits.priority and result.num_preemptions > 0
        again += limits.caching and case.trace.prefix_hashes is None and result.num_preemptions > 0
    assert preempted > 2000
    assert 200 < overlapped < 350
    assert cached > 80
    assert min(late, urgent, again) >= 10
    assert len(methods) == 7 and min(methods.values()) > 200
    assert preempted_drafting > 1000


def test_an_engine_that_hangs_is_reported() -> None:
    """Equally urgent requests whose prompts together exceed the pool preempt each other for ever,
    in the engine too (the comparison above includes such cases)."""
    endless = [seed for seed in range(1100) if random_case(seed).num_kv_blocks == 7]
    results = []
    for seed in endless:
        case = random_case(seed)
        results.append(run_kernel(case)[1].endless)
    assert any(results)
    assert not all(results)
