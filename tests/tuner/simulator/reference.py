"""The slow, obvious twin of the simulator: one Python object per request, every request visited in
every step, exactly as vLLM 0.32 words it (first-come order, no prefix cache, no speculation).

The compiled kernel is compared with it on random small traces: same tokens for the same requests
in the same order, same preemptions, same free blocks, same times.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from profiler.latency.step_time import BatchShape
from profiler.steps import AFTER_CHUNKS, AFTER_DECODES, AFTER_IDLE
from tuner.simulator.state import Limits


@dataclass(eq=False)
class Job:
    number: int
    visible_s: float
    prompt: int
    max_output: int
    outputs: int = 0  # tokens whose step was processed
    in_flight: int = 0  # tokens being computed, not seen by the scheduler
    computed: int = 0
    blocks: int = 0
    finished: bool = False
    decoding: bool = False  # every known token was computed since the last admission
    token_s: list[float] = field(default_factory=list)

    @property
    def known(self) -> int:
        return self.prompt + self.outputs


@dataclass
class Row:
    scheduled: list[tuple[int, int, int]]
    preempted: list[int]
    free: int


@dataclass(eq=False)
class Step:
    emitting: list[Job]
    end: float


class Reference:
    """`seconds(batch, num_running)` is the step-latency model."""

    def __init__(
        self, jobs: list[Job], limits: Limits, blocks: int, seconds: Callable[..., float]
    ) -> None:
        self.jobs, self.limits, self.seconds = jobs, limits, seconds
        self.free, self.running = blocks, list[Job]()
        self.waiting, self.future = deque[Job](), deque(jobs)
        self.rows: list[Row] = []
        self.follows = AFTER_IDLE
        self.pending_preempted: list[int] = []

    def _grow(self, job: Job, tokens: int, spare: int = 0) -> bool:
        need = math.ceil((job.computed + tokens) / self.limits.block_size) - job.blocks
        if need + spare > self.free:
            return False
        self.free -= need
        job.blocks += need
        return True

    def _release(self, job: Job) -> None:
        self.free += job.blocks
        job.blocks = 0

    def _preempt_tail(self, preempted: list[int]) -> Job:
        job = self.running.pop()
        self._release(job)
        job.computed, job.decoding = 0, False
        self.waiting.appendleft(job)
        preempted.append(job.number)
        return job

    def _threshold(self) -> int:
        present = len(self.running) + len(self.waiting)
        if present <= 1 or not self.limits.threshold:
            return 0
        if self.limits.adaptive:
            return max(self.limits.threshold, self.limits.adaptive_budget // present)
        return self.limits.threshold

    def schedule(self, now: float) -> list[tuple[Job, int, int]]:
        while self.future and self.future[0].visible_s <= now:
            self.waiting.append(self.future.popleft())
        threshold, left = self._threshold(), self.limits.token_budget
        out: list[tuple[Job, int, int]] = []
        preempted: list[int] = []
        i = 0
        while i < len(self.running) and left > 0:
            job = self.running[i]
            i += 1
            if job.outputs + job.in_flight >= job.max_output:
                continue  # its last token is being computed
            n = job.known + job.in_flight - job.computed
            if 0 < threshold < n:
                n = threshold
            n = min(n, left)
            while not self._grow(job, n):
                if self._preempt_tail(preempted) is job:
                    n = 0
                    break
            if n == 0:
                break
            out.append((job, n, job.computed))
            left -= n
        if not preempted:
            self._admit(out, threshold, left)
        for job, n, _ in out:
            job.computed += n
        self.pending_preempted += preempted
        return out

    def _admit(self, out: list[tuple[Job, int, int]], threshold: int, left: int) -> None:
        while self.waiting and left > 0 and len(self.running) < self.limits.max_active:
            job = self.waiting[0]
            n = job.known
            if 0 < threshold < n:
                n = threshold
            if not self.limits.chunked and n > left:
                break
            n = min(n, left)
            spare = self.limits.watermark_blocks if self.running else 0
            whole = math.ceil(job.known / self.limits.block_size)
            if self.limits.reserve_full and whole + spare > self.free:
                break
            if not self._grow(job, n, spare):
                break
            self.waiting.popleft()
            self.running.append(job)
            out.append((job, n, 0))
            left -= n

    def _batch(self, out: list[tuple[Job, int, int]]) -> BatchShape:
        chunks = [(n, before) for job, n, before in out if not job.decoding]
        decodes = [before for job, _, before in out if job.decoding]
        return BatchShape(
            sum(n for n, _ in chunks),
            len(chunks),
            sum(n * (b + 0.5 * (n + 1)) for n, b in chunks),
            sum(b for _, b in chunks),
            len(decodes),
            sum(decodes),
            self.follows,
        )

    def _dispatch(self, out: list[tuple[Job, int, int]], start: float) -> Step:
        batch = self._batch(out)
        end = start + self.seconds(batch, len(self.running))
        self.follows = AFTER_CHUNKS if batch.prefill_tokens else AFTER_DECODES
        self.rows.append(
            Row([(j.number, n, b) for j, n, b in out], sorted(self.pending_preempted), self.free)
        )
        self.pending_preempted = []
        emitting = [job for job, n, b in out if b + n == job.known + job.in_flight]
        for job in emitting:
            job.in_flight += 1
            job.decoding = True
            job.token_s.append(end)
        return Step(emitting, end)

    def _process(self, step: Step) -> None:
        for job in step.emitting:
            job.in_flight -= 1
            job.outputs += 1
            if job.outputs < job.max_output:
                continue
            job.finished = True
            if job in self.running:
                self.running.remove(job)
            else:
                self.waiting.remove(job)
            self._release(job)

    def run(self) -> None:
        """The engine loop; with overlap, schedule() of the next step happens at its start."""
        now, last_end = 0.0, 0.0
        pending: Step | None = None
        while not all(job.finished for job in self.jobs):
            out = self.schedule(now)
            if now > last_end:
                self.follows = AFTER_IDLE
            if not out:
                if pending is not None:
                    self._process(pending)
                    pending, now = None, max(now, last_end)
                else:
                    now = max(now, self.future[0].visible_s)
                continue
            start = max(last_end, now)
            step = self._dispatch(out, start)
            last_end = step.end
            if not self.limits.overlapped:
                self._process(step)
                now = last_end
                continue
            if pending is not None:
                self._process(pending)
            pending, now = step, start
