"""What a run shows of its steps: timeline and windowed record, against the full record."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tuner.simulator import Simulation, StepRecord, simulate
from tuner.simulator.difftest.cases import Case, random_case
from tuner.simulator.difftest.compare import MODEL
from tuner.simulator.state import PREEMPTED, RUNS, WAITS

SEEDS = range(120)


def run(case: Case, **options: object) -> Simulation:
    return simulate(
        case.trace,
        case.config,
        MODEL,
        num_kv_blocks=case.num_kv_blocks,
        acceptance=case.acceptance,
        **options,  # type: ignore[arg-type]
    )


def rows_at(record: StepRecord, step: int) -> list[tuple[int, int, int, int]]:
    """(request, tokens, before, free) of one step."""
    at = record.step == step
    columns = (record.request, record.tokens, record.before, record.free)
    return list(zip(*(c[at].tolist() for c in columns), strict=True))


class Twin:
    """Counts the rows of the full record, request by request."""

    def __init__(self, case: Case, whole: Simulation) -> None:
        assert whole.record is not None and whole.timeline is not None
        self.case, self.whole = case, whole
        self.record, self.timeline = whole.record, whole.timeline
        self.running: set[int] = set()
        self.decoding: set[int] = set()
        self.known = case.trace.prompt_tokens.copy()

    def check_step(self, step: int) -> None:
        rows, line = rows_at(self.record, step), self.timeline
        busy = [row for row in rows if row[1] > 0]
        if step and line.schedule_s[step] >= line.end_s[step - 1]:
            self.forget_finished(line.end_s[step - 1])
        gone = {r for r, tokens, _, _ in rows if tokens == PREEMPTED}
        self.running = (self.running - gone) | {r for r, _, _, _ in busy}
        self.decoding -= gone
        decodes = [(r, before) for r, _, before, _ in busy if r in self.decoding]
        chunks = [n for r, n, _, _ in busy if r not in self.decoding]
        assert line.prefill_tokens[step] + line.num_decodes[step] == sum(n for _, n, _, _ in busy)
        if self.case.acceptance is None:  # else the record does not tell how many were accepted
            assert line.prefill_tokens[step] == sum(chunks)
            assert line.num_decodes[step] == len(decodes)
            assert line.decode_context[step] == sum(before for _, before in decodes)
        assert line.num_running[step] == len(self.running)
        assert line.num_waiting[step] == sum(tokens == WAITS for _, tokens, _, _ in rows)
        assert line.free_blocks[step] == busy[-1][3]
        for r, tokens, before, _ in busy:
            if before + tokens == self.known[r]:
                self.known[r] += 1
                self.decoding.add(r)
        self.running = {r for r, tokens, _, _ in rows if tokens == RUNS}

    def forget_finished(self, until: float) -> None:
        finish = self.whole.outcomes.finish_s - MODEL.frontend_out_s
        self.running = {r for r in self.running if not finish[r] <= until + 1e-9}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_timeline_sums_up_the_record(seed: int) -> None:
    case = random_case(seed)
    whole = run(case, record=True, timeline=True)
    twin = Twin(case, whole)
    last = int(twin.record.step[-1])
    for step in range(last + (0 if whole.endless else 1)):
        twin.check_step(step)
    line = twin.timeline
    assert line.num_steps == whole.num_steps
    assert (line.start_s[1:] >= line.end_s[:-1]).all()
    overlapped = bool(case.config.async_scheduling)
    busy = line.start_s[1:] == line.end_s[:-1]
    expected = (line.start_s if overlapped else line.end_s)[:-1]
    assert (line.schedule_s[1:][busy] >= expected[busy]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_timeline_is_the_same_at_full_speed(seed: int) -> None:
    """The quiet loop writes what the step-by-step one writes, and nothing else changes."""
    case = random_case(seed)
    slow, fast, off = run(case, record=True, timeline=True), run(case, timeline=True), run(case)
    assert slow.timeline is not None and fast.timeline is not None
    for field in dataclasses.fields(slow.timeline):
        a, b = getattr(slow.timeline, field.name), getattr(fast.timeline, field.name)
        np.testing.assert_array_equal(a, b, err_msg=field.name)
    np.testing.assert_array_equal(off.outcomes.finish_s, fast.outcomes.finish_s)
    assert off.worst_own_gap == fast.worst_own_gap == slow.worst_own_gap


@pytest.mark.parametrize("seed", SEEDS)
def test_a_windowed_record_is_a_slice_of_the_full_one(seed: int) -> None:
    case = random_case(seed)
    whole = run(case, record=True, timeline=True)
    assert whole.record is not None and whole.timeline is not None
    times = whole.timeline.schedule_s
    low, high = np.quantile(times, [0.3, 0.7])
    part = run(case, record=(low, high)).record
    assert part is not None
    steps = np.flatnonzero((times >= low) & (times < high))
    if whole.endless:  # its last preemptions belong to no step
        steps = steps[:-1]
    for step in steps:
        expected = [row for row in rows_at(whole.record, step) if row[1] >= PREEMPTED]
        found = rows_at(part, step)
        if step == steps[0]:  # an empty schedule() call before the window may have preempted
            expected = [row for row in expected if row[1] > 0]
            found = [row for row in found if row[1] > 0]
        assert found == expected
    inside = set(part.step.tolist()) <= {*steps.tolist(), whole.num_steps, steps[-1] + 1}
    assert inside or whole.endless


def test_the_longest_own_gap_is_found() -> None:
    """From the record: the longest time between two tokens that are not of consecutive steps."""
    found = 0
    for seed in SEEDS:
        case = random_case(seed)
        whole = run(case, record=True, timeline=True)
        if whole.endless or whole.worst_own_gap is None:
            continue
        if case.acceptance is not None:  # then every gap is a request's own
            longest = whole.outcomes.gap_s.max()
            own = whole.worst_own_gap
            assert own.end_s - own.start_s == pytest.approx(longest, rel=1e-9)
            continue
        record, line = whole.record, whole.timeline
        assert record is not None and line is not None
        known, last, worst = case.trace.prompt_tokens.copy(), {}, (0.0, 0.0, -1)
        for step, r, tokens, before in zip(
            record.step, record.request, record.tokens, record.before, strict=True
        ):
            if tokens > 0 and before + tokens == known[r]:
                known[r] += 1
                gap = line.end_s[step] - line.end_s[last[r]] if r in last else 0.0
                if r in last and step > last[r] + 1 and gap > worst[0]:
                    worst = (gap, line.end_s[step], r)
                last[r] = step
        own = whole.worst_own_gap
        assert own.end_s - own.start_s >= worst[0]
        found += (own.request, own.end_s) == (worst[2], worst[1])
    assert found >= 10


def test_admission_is_a_schedule_call_between_arrival_and_first_token() -> None:
    for seed in SEEDS:
        case = random_case(seed)
        done = run(case, timeline=True)
        assert done.timeline is not None
        some = ~np.isnan(done.outcomes.first_token_s)
        admitted = done.admitted_s[some]
        assert (admitted >= case.trace.arrival_s[some] + MODEL.frontend_in_s).all()
        assert (admitted < done.outcomes.first_token_s[some]).all()
        assert np.isin(admitted, done.timeline.schedule_s).all()
