"""Random cases of engines with a KV connector, and how each side of the comparison runs them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from profiler.latency.step_time import BatchShape, step_interval
from tuner.simulator.build import admissible, build_limits, build_requests
from tuner.simulator.difftest.cases import Case, jobs_of, random_case
from tuner.simulator.difftest.compare import (
    MODEL,
    Difference,
    admission_order,
    first_difference,
    rows_of,
    sort_waiting,
)
from tuner.simulator.difftest.loop import EngineLoop, Job, Row, Scheduler
from tuner.simulator.gap_store import GapStore
from tuner.simulator.memory import Inputs
from tuner.simulator.prefix_keys import build_prefixes
from tuner.simulator.run import kernel_call, run_to_end
from tuner.simulator.state import State
from tuner.simulator.timeline import gather_record, record_limits
from tuner.simulator.transfer_build import (
    FAILURE_POLICIES,
    ROLES,
    Script,
    allocate_engine,
    build_transfers,
    role_rules,
)


@dataclass(frozen=True)
class TransferCase(Case):
    """A case of one engine with a KV connector and scripted transfers."""

    role: str = "kv_both"
    policy: str = "fail"
    moves: tuple[Move, ...] = ()
    """one for each request"""


@dataclass(frozen=True)
class Move:
    """What moves for one request."""

    remote: bool
    hands_over: bool
    fails: bool
    duration_s: float


class TransferScheduler(Scheduler, Protocol):
    """A scheduler under test that knows transfers."""

    def expect(self, number: int, move: Move) -> None:
        """What moves for the request that has just been added."""

    def take_started(self) -> list[int]:
        """Loads started by the last schedule() call."""

    def take_held(self) -> list[int]:
        """Requests that finished in the last update and hold their blocks."""

    def report(self, received: list[int], sent: list[int]) -> None:
        """Transfers that the next update reports, in order of their ends."""

    def report_idle(self) -> list[int]:
        """An update without a step, for reports only; returns who finished (failed)."""

    def holding(self) -> list[int]:
        """Waiting requests that hold KV, in order of their queue."""


MakeTransferScheduler = Callable[[TransferCase], TransferScheduler]


def random_transfer_case(seed: int) -> TransferCase:
    """Case number `seed` of those with a KV connector."""
    case = random_case(seed, speculative=False)
    rng = random.Random(-1_000_003 - seed)
    role, policy = rng.choice(ROLES), rng.choice(FAILURE_POLICIES)
    trace, often = case.trace, rng.choice((0.2, 0.6, 1.0))
    if role == "kv_producer":
        trace = dataclasses.replace(trace, output_tokens=np.ones_like(trace.output_tokens))
    failing = rng.choice((0.0, 0.2, 0.6))
    longest = rng.choice((0.001, 0.02, 0.2, 2.0))
    moves = tuple(
        Move(
            remote=role != "kv_producer" and rng.random() < often,
            hands_over=role != "kv_consumer" and rng.random() < often,
            fails=rng.random() < failing,
            duration_s=rng.uniform(1e-6, longest),
        )
        for _ in range(trace.num_requests)
    )
    return TransferCase(
        case.config, trace, case.num_kv_blocks, None, role=role, policy=policy, moves=moves
    )


class TransferLoop(EngineLoop):
    """The engine's loop with scripted transfers: each ends a fixed time after it starts."""

    def __init__(
        self,
        scheduler: TransferScheduler,
        case: TransferCase,
        seconds: Callable[[BatchShape, int], float],
        overlapped: bool,
    ) -> None:
        super().__init__(scheduler, jobs_of(case, MODEL.frontend_in_s), seconds, overlapped)
        self.engine, self.moves = scheduler, case.moves
        self.step_ends: list[float] = []
        self.loading: dict[int, float] = {}
        self.sending: dict[int, float] = {}
        self.num_described = 0

    def run(self, max_steps: int) -> list[Row]:
        super().run(max_steps)
        self._describe()
        return self.rows

    def _describe(self) -> None:
        if len(self.rows) > self.num_described:
            self.rows[-1].holding = self.engine.holding()
            self.num_described = len(self.rows)

    def _next_event_s(self) -> float:
        ends = (*self.loading.values(), *self.sending.values())
        return min(super()._next_event_s(), min(ends, default=np.inf))

    def _add(self, job: Job) -> None:
        super()._add(job)
        self.engine.expect(job.number, self.moves[job.number])

    def _schedule(self, now: float) -> Any:
        self._describe()
        if self._report(now):
            self.unfinished -= len(self.engine.report_idle())
        decision = super()._schedule(now)
        for number in self.engine.take_started():
            self.loading[number] = now + self.moves[number].duration_s
        return decision

    def _run_batch(self, decision: Any, start: float) -> float:
        duration = super()._run_batch(decision, start)
        self.step_ends.append(start + duration)
        return duration

    def _update(self) -> None:
        end = self.step_ends.pop(0)
        self._report(end)
        super()._update()
        for number in self.engine.take_held():
            self.jobs[number].token_s[-1] = end  # an earlier one may have been dropped
            self.sending[number] = end + self.moves[number].duration_s

    def _report(self, now: float) -> bool:
        received, sent = list(take_ended(self.loading, now)), list(take_ended(self.sending, now))
        if received or sent:
            self.engine.report(received, sent)
        return bool(received or sent)


def take_ended(ends: dict[int, float], now: float) -> Iterator[int]:
    """Take the transfers that ended by `now` out of `ends`, in order of their ends."""
    for number in sorted((r for r, end in ends.items() if end <= now), key=lambda r: (ends[r], r)):
        del ends[number]
        yield number


def run_transfer_kernel(case: TransferCase, record: bool = True) -> tuple[list[Row], State, int]:
    """The case through the kernel: rows, final state and status."""
    trace, blocks = case.trace, case.num_kv_blocks
    limits = build_limits(case.config, blocks, trace.prefix_block_tokens or 1)
    limits = limits._replace(identities=limits.caching, **record_limits(record))
    accepted = admissible(trace, case.config, blocks)
    assert accepted.all()
    length = case.config.max_model_len or 0
    requests = build_requests(trace, accepted, limits, MODEL.frontend_in_s, length)
    prefixes = build_prefixes(trace, accepted, requests, limits)
    transfers = build_transfers(
        script_of(case.moves), role_rules(case.role, case.policy, limits.overlapped)
    )
    inputs = Inputs(requests, prefixes, None, transfers)
    state = allocate_engine(inputs, limits, blocks, np.full(1, np.nan))
    run = kernel_call(limits, MODEL, np.ones(1), None)
    state, status = run_to_end(state, run, GapStore(1))
    rows = rows_of(gather_record(accepted, state)) if record else []
    return sort_holding(rows, case), state, status


def script_of(moves: tuple[Move, ...]) -> Script:
    """The moves as columns."""
    return Script(
        remote=np.array([m.remote for m in moves], dtype=np.int64),
        hands_over=np.array([m.hands_over for m in moves], dtype=np.int64),
        fails=np.array([m.fails for m in moves], dtype=np.int64),
        duration_s=np.array([m.duration_s for m in moves]),
    )


def sort_holding(rows: list[Row], case: TransferCase) -> list[Row]:
    """The same rows; under priorities with sorted queues."""
    if case.config.scheduling_policy == "priority":
        for row in rows:
            row.holding.sort(key=lambda r: admission_order(case, r))
    return sort_waiting(rows, case)


def run_transfer_other(
    case: TransferCase, make: MakeTransferScheduler, max_steps: int
) -> tuple[list[Row], list[Job]]:
    """The case through another scheduler, at most `max_steps` busy steps of it."""
    overlapped = bool(case.config.async_scheduling)

    def seconds(batch: BatchShape, running: int) -> float:
        return float(step_interval(MODEL.params, batch, running, overlapped))

    loop = TransferLoop(make(case), case, seconds, overlapped)
    return sort_holding(loop.run(max_steps), case), list(loop.jobs)


def compare_transfers(
    case: TransferCase, make: MakeTransferScheduler
) -> tuple[Difference | None, State]:
    """The first difference between the kernel and another scheduler, and the kernel's state."""
    ours, state, status = run_transfer_kernel(case)
    theirs, _ = run_transfer_other(case, make, len(ours) + (1 if status == 0 else 0))
    return first_difference(ours, theirs), state
