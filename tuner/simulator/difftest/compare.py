"""One case through the kernel and through another scheduler."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from profiler.latency.base import StepTimeModel, load_latency_model
from profiler.latency.step_time import BatchShape, step_interval
from tuner.simulator.acceptance import build_acceptance
from tuner.simulator.build import build_limits
from tuner.simulator.difftest.cases import Case, jobs_of
from tuner.simulator.difftest.loop import EngineLoop, Job, Row, Scheduler
from tuner.simulator.image_build import EncoderSize
from tuner.simulator.run import Simulation, simulate
from tuner.simulator.state import ENCODES, HOLDS, PREEMPTED, RUNS, WAITS
from tuner.simulator.timeline import StepRecord

MakeScheduler = Callable[[dict[str, Any], int, EncoderSize | None], Scheduler]
"""settings, number of KV blocks and size of the encoder's reserves to a scheduler"""


def plain_model() -> StepTimeModel:
    """A latency model without jitter, in which what ran before matters."""
    example = load_latency_model("example-8b")
    params = example.params._replace(cold_decode_s=2e-3, cold_prefill_s=3e-3, idle_prefill_s=1e-3)
    params = params._replace(encoder_token_s=1e-4)
    return dataclasses.replace(example, params=params, residuals=np.ones(1))


MODEL = plain_model()


def rows_of(record: StepRecord) -> list[Row]:
    """The kernel's record, one row per busy step."""
    rows = []
    ends = np.searchsorted(record.step, np.arange(record.step.max(initial=-1) + 2))
    for start, end in pairwise(ends):
        tokens, request = record.tokens[start:end], record.request[start:end]
        busy = np.flatnonzero(tokens > 0)
        if busy.size == 0:
            break  # the preemptions with which an endless run was given up
        before = record.before[start:end]
        rows.append(
            Row(
                [(int(request[i]), int(tokens[i]), int(before[i])) for i in busy],
                sorted(request[tokens == PREEMPTED].tolist()),
                int(record.free[start + busy[-1]]),
                request[tokens == RUNS].tolist(),
                request[tokens == WAITS].tolist(),
                [(int(request[i]), int(before[i])) for i in np.flatnonzero(tokens == ENCODES)],
                request[tokens == HOLDS].tolist(),
            )
        )
    return rows


def sort_waiting(rows: list[Row], case: Case) -> list[Row]:
    """The same rows; under priorities the heaps as sorted lists, because a heap's inner order is
    nobody's business."""
    if case.config.scheduling_policy == "priority":
        for row in rows:
            row.waiting.sort(key=lambda r: admission_order(case, r))
    return rows


def admission_order(case: Case, number: int) -> tuple[int, float, int]:
    """Priority, arrival and number of a request."""
    trace = case.trace
    priority = 0 if trace.priority is None else int(trace.priority[number])
    return priority, float(trace.arrival_s[number]), number


def run_kernel(case: Case, itl_limit_s: float = np.nan) -> tuple[list[Row], Simulation]:
    """The case through the kernel."""
    result = simulate(
        case.trace,
        case.config,
        MODEL,
        num_kv_blocks=case.num_kv_blocks,
        itl_limit_s=np.array([itl_limit_s]),
        acceptance=case.acceptance,
        record=True,
        encoder=case.encoder,
    )
    assert result.record is not None
    return sort_waiting(rows_of(result.record), case), result


def run_other(case: Case, make: MakeScheduler, max_steps: int) -> tuple[list[Row], list[Job]]:
    """The case through another scheduler, at most `max_steps` busy steps of it."""
    limits = build_limits(case.config, case.num_kv_blocks)

    def seconds(batch: BatchShape, running: int) -> float:
        return float(step_interval(MODEL.params, batch, running, limits.overlapped))

    jobs = jobs_of(case, MODEL.frontend_in_s)
    scheduler = make(case.config.settings(), case.num_kv_blocks, case.encoder)
    accepted = None
    if limits.num_drafts > 0:
        accepted = build_acceptance(case.trace, limits.num_drafts, case.acceptance, 0).count
    rows = EngineLoop(scheduler, jobs, seconds, limits.overlapped, accepted).run(max_steps)
    return sort_waiting(rows, case), jobs


def compare(case: Case, make: MakeScheduler) -> tuple[Difference | None, Simulation]:
    """The first difference between the kernel and another scheduler, and the kernel's result."""
    ours, result = run_kernel(case)
    theirs, _ = run_other(case, make, len(ours) + (0 if result.endless else 1))
    return first_difference(ours, theirs), result


class Difference(NamedTuple):
    """The first step in which two schedulers differ."""

    step: int
    ours: Row | None
    theirs: Row | None

    def __str__(self) -> str:
        lines = [f"step {self.step}:"]
        for name in (f.name for f in dataclasses.fields(Row)):
            a, b = getattr(self.ours, name, "no step"), getattr(self.theirs, name, "no step")
            mark = "  " if a == b else "! "
            lines += [f"{mark}{name}: simulator {a}", f"{mark}{name}: other     {b}"]
        return "\n".join(lines)


def first_difference(ours: list[Row], theirs: list[Row]) -> Difference | None:
    """Where two runs part, or None."""
    for step, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if a != b:
            return Difference(step, a, b)
    shorter = min(len(ours), len(theirs))
    if len(ours) == len(theirs):
        return None
    return Difference(
        shorter,
        ours[shorter] if shorter < len(ours) else None,
        theirs[shorter] if shorter < len(theirs) else None,
    )
