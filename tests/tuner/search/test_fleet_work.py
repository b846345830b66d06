"""Closed-form work of a request, against slow twins, and the fleets it suggests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fleet_problems import RESOLVED, closed_form, fleet_problem, replica, space, traffic

from profiler.latency.base import load_latency_model
from profiler.latency.step_time import BatchShape, step_interval
from profiler.steps import AFTER_CHUNKS, AFTER_DECODES
from tuner.search.fleet_problem import busiest, shortened
from tuner.search.fleet_work import decode_interval_s, prefill_s, request_work

MODEL = load_latency_model("example-8b")


def prompt_by_chunks(prompt: int, budget: int) -> float:
    """Twin: seconds of one prompt, chunk by chunk, alone in its steps."""
    seconds, before = 0.0, 0
    while before < prompt:
        n = min(budget, prompt - before)
        batch = BatchShape(n, 1, n * (before + (n + 1) / 2), before, 0, 0, AFTER_CHUNKS)
        seconds += step_interval(MODEL.params, batch, 1, True)
        before += n
    return seconds


@pytest.mark.parametrize(("prompt", "budget"), [(8192, 2048), (16384, 4096), (6000, 512)])
def test_long_prompts_go_chunk_by_chunk(prompt: int, budget: int) -> None:
    assert prefill_s(MODEL, prompt, budget, True) == pytest.approx(
        prompt_by_chunks(prompt, budget), rel=0.03
    )


def test_short_prompts_fill_the_step_together() -> None:
    one = BatchShape(8000, 8, 8 * 1000 * 1000 / 2, 0, 0, 0, AFTER_CHUNKS)
    expected = step_interval(MODEL.params, one, 8, True) / 8
    assert prefill_s(MODEL, 1000, 8192, True) == pytest.approx(expected)
    assert prefill_s(MODEL, 1000, 8192, True) < prompt_by_chunks(1000, 8192)


@pytest.mark.parametrize("limit_s", [0.004, 0.008, 0.02, np.nan])
@pytest.mark.parametrize("num_kv_blocks", [2000, 20_000])
def test_decode_batch_is_the_largest_within_the_limits(limit_s: float, num_kv_blocks: int) -> None:
    one = replace(replica(traffic()), num_kv_blocks=num_kv_blocks)
    limit = replace(one.slo.limits[0], itl_p99_s=limit_s)
    one = replace(one, slo=replace(one.slo, limits=(limit,)))
    found, context = 0.0, 1500.0
    for count in range(1, 257):  # twin: every batch in turn
        batch = BatchShape(0, 0, 0.0, 0, count, round(count * context), AFTER_DECODES)
        seconds = step_interval(one.model.params, batch, count, True)
        if count == 1 or (count * context <= 16 * num_kv_blocks and not seconds > limit_s):
            found = seconds / count
    assert decode_interval_s(one, RESOLVED, context) == pytest.approx(found)


def test_work_grows_with_the_lengths() -> None:
    short = request_work(replica(traffic(prompt=500, output=50)), RESOLVED)
    long = request_work(replica(traffic(prompt=4000, output=400)), RESOLVED)
    assert long.prefill_s > 7 * short.prefill_s
    assert long.decode_s > 7 * short.decode_s
    assert long.both_s == long.prefill_s + long.decode_s


def test_starts_have_the_ratio_of_the_work() -> None:
    problem = fleet_problem(space(16, tp=(1,)))
    work = request_work(problem.replica("prefill", 1), problem.replica("prefill", 1).fixed)
    expected = round(16 * work.prefill_s / work.both_s)
    split = [plan for plan in problem.starts() if plan.mode == "disaggregated"]
    assert {plan.pools[0].replicas for plan in split} == {expected - 1, expected, expected + 1}
    assert all(plan.num_gpus == 16 for plan in problem.starts())
    assert all(plan.router == "least-requests" for plan in problem.starts())
    together = [plan.pools[0].settings for plan in problem.starts() if plan not in split]
    budgets = [s.get("max_num_batched_tokens") for s in together]
    assert budgets == [None, 1448, 609]  # the default; middle and quarter of 256 to 8,192, log


def test_more_decode_more_decode_replicas() -> None:
    few = fleet_problem(space(16, tp=(1,)), traffic(output=20)).starts()[-1]
    many = fleet_problem(space(16, tp=(1,)), traffic(output=1000)).starts()[-1]
    assert few.pools[1].replicas < many.pools[1].replicas


def test_the_fewest_gpus_start_near_the_need() -> None:
    of = space(64, tp=(1,), fewest=True)
    slow = {plan.num_gpus for plan in fleet_problem(of, traffic(rate_rps=20.0)).starts()}
    fast = {plan.num_gpus for plan in fleet_problem(of, traffic(rate_rps=100.0)).starts()}
    assert max(slow) < 16 and max(slow) < min(fast) and max(fast) <= 64


@pytest.mark.parametrize("mode", ["aggregated", "disaggregated", "mixed"])
def test_starts_are_within_the_space(mode: str) -> None:
    problem = closed_form(space(8, modes=(mode,), tp=(1, 2)))
    starts = problem.starts()
    assert 1 <= len(starts) <= 5
    for plan in starts:
        assert problem.candidate(problem.raw(plan)).num_gpus <= 8
        assert plan.num_gpus <= 8


def test_the_busiest_requests_in_a_row() -> None:
    calm, rush = traffic(100, 1.0), traffic(50, 10.0)
    arrival = np.concatenate([calm.arrival_s, 100 + rush.arrival_s, 106 + calm.arrival_s])
    trace = replace(traffic(250, prompt=9, output=9), arrival_s=arrival)
    assert busiest(trace, 50).duration_s == pytest.approx(rush.duration_s)
    assert busiest(trace, 250) is trace
    problem = shortened(replace(fleet_problem(space(4)), trace=trace, windows=8), 50)
    assert (problem.trace.num_requests, problem.windows) == (50, 1)
