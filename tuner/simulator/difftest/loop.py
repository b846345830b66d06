"""The engine's loop around a scheduler, with the simulator's clock; no model, no device."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from profiler.latency.step_time import BatchShape
from profiler.steps import AFTER_CHUNKS, AFTER_DECODES, AFTER_IDLE

Scheduled = list[tuple[int, int, int]]
"""(request, tokens, tokens computed before), in the engine's order"""

Order = tuple[int, float]
"""priority and arrival of a request"""


@dataclass(eq=False)
class Job:
    """One request, and when its tokens appeared."""

    number: int
    visible_s: float
    arrival_s: float
    prompt: list[int]
    """token numbers; equal prompts have equal ones"""
    max_output: int
    priority: int = 0
    images: list[tuple[int, int, int]] = field(default_factory=list)
    """(start, tokens, identity) of each image"""
    token_s: list[float] = field(default_factory=list)


Emitting = list[tuple[int, int]]
"""requests that get a token from a step, and how many drafts it verifies for them"""

Accepted = Callable[[int, int, int], int]
"""request, its verifications so far, drafts -> accepted ones"""


class Decision(NamedTuple):
    """What one schedule() call decided."""

    scheduled: Scheduled
    preempted: list[int]
    emitting: Emitting
    free: int
    """free KV blocks afterwards"""
    num_running: int


class Scheduler(Protocol):
    """A scheduler under test. Requests are known by their numbers."""

    encoded: list[tuple[int, int]]
    """(request, image tokens) that the encoder computes in the step decided last"""

    def add(self, job: Job) -> None:
        """A request arrives."""

    def schedule(self) -> tuple[Scheduled, list[int], Emitting, int]:
        """Decide the next step: the fields of `Decision` but the last."""

    def update(self, tokens: dict[int, int]) -> list[int]:
        """The oldest step in flight has run (empty ones are not counted) and made so many tokens
        for each emitting request; returns who finished."""

    def num_running(self) -> int:
        """Running requests."""

    def queues(self) -> tuple[list[int], list[int]]:
        """Running, then waiting requests in the order of their queues."""


@dataclass
class Row:
    """One busy step, as everything under test reports it."""

    scheduled: Scheduled
    preempted: list[int]
    free: int
    running: list[int]
    waiting: list[int]
    """in order of admission"""
    encoded: list[tuple[int, int]] = field(default_factory=list)
    """(request, image tokens) that the encoder computes"""
    holding: list[int] = field(default_factory=list)
    """waiting with KV blocks, apart from `waiting`"""


class EngineLoop:
    """Steps a scheduler through `jobs` (sorted by arrival).

    Parameters
    ----------
    seconds
        Batch and number of running requests to the step's duration.
    overlapped
        Two steps in flight: schedule() of the next happens when a step starts.
    accepted
        Who accepts how many drafts; None accepts none.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        jobs: Sequence[Job],
        seconds: Callable[[BatchShape, int], float],
        overlapped: bool,
        accepted: Accepted | None = None,
    ) -> None:
        self.scheduler, self.jobs = scheduler, jobs
        self.seconds, self.overlapped, self.accepted = seconds, overlapped, accepted
        self.turns = Counter[int]()
        self.in_flight: deque[dict[int, int]] = deque()
        self.rows: list[Row] = []
        self.future = deque(jobs)
        self.decoding: set[int] = set()
        self.preempted: list[int] = []
        self.unfinished = len(jobs)
        self.follows = AFTER_IDLE

    def run(self, max_steps: int) -> list[Row]:
        """Run until every job has finished, or for `max_steps` busy steps, or until nothing can
        happen any more; one row for each."""
        now, last_end = 0.0, 0.0
        while self.unfinished and len(self.rows) < max_steps:
            decision = self._schedule(now)
            if not decision.scheduled:
                if self.in_flight:
                    self._update()
                    now = max(now, last_end)
                elif not decision.preempted:
                    if self._next_event_s() == math.inf:
                        break  # stuck, which is a difference
                    now = max(now, self._next_event_s())
                continue
            if now > last_end:
                self.follows = AFTER_IDLE
            start = max(last_end, now)
            last_end = start + self._run_batch(decision, start)
            if not self.overlapped or len(self.in_flight) == 2:
                self._update()
            self.rows[-1].running, self.rows[-1].waiting = self.scheduler.queues()
            now = start if self.overlapped else last_end
        return self.rows

    def _next_event_s(self) -> float:
        """When something can happen that an idle engine waits for."""
        return self.future[0].visible_s if self.future else math.inf

    def _add(self, job: Job) -> None:
        self.scheduler.add(job)

    def _schedule(self, now: float) -> Decision:
        while self.future and self.future[0].visible_s <= now:
            self._add(self.future.popleft())
        scheduled, preempted, emitting, free = self.scheduler.schedule()
        self.decoding.difference_update(preempted)
        self.preempted += preempted
        return Decision(scheduled, preempted, emitting, free, self.scheduler.num_running())

    def _update(self) -> None:
        self.unfinished -= len(self.scheduler.update(self.in_flight.popleft()))

    def _run_batch(self, decision: Decision, start: float) -> float:
        shape = self._shape(decision.scheduled)
        duration = self.seconds(shape, decision.num_running)
        self.follows = AFTER_CHUNKS if shape.prefill_tokens else AFTER_DECODES
        encoded = self.scheduler.encoded
        preempted = sorted(self.preempted)
        self.rows.append(Row(decision.scheduled, preempted, decision.free, [], [], encoded))
        self.preempted = []
        tokens = {number: self._yield(number, drafts) for number, drafts in decision.emitting}
        for number, count in tokens.items():
            job = self.jobs[number]
            self.decoding.add(number)
            missing = job.max_output - len(job.token_s)
            job.token_s += [start + duration] * min(count, missing)
        self.in_flight.append(tokens)
        return duration

    def _yield(self, number: int, drafts: int) -> int:
        """Tokens that a request gets from a step that verifies so many drafts for it."""
        if drafts == 0 or self.accepted is None:
            return 1
        self.turns[number] += 1
        return 1 + self.accepted(number, self.turns[number] - 1, drafts)

    def _shape(self, scheduled: Scheduled) -> BatchShape:
        chunks = [(n, before) for number, n, before in scheduled if number not in self.decoding]
        decodes = [(n, before) for number, n, before in scheduled if number in self.decoding]
        return BatchShape(
            sum(n for n, _ in chunks),
            len(chunks),
            sum(n * (b + 0.5 * (n + 1)) for n, b in chunks),
            sum(b for _, b in chunks),
            sum(n for n, _ in decodes),
            sum(before for _, before in decodes),
            self.follows,
            sum(tokens for _, tokens in self.scheduler.encoded),
        )
