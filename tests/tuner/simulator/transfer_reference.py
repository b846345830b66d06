"""The slow, obvious twin of an engine with a KV connector, as vLLM 0.32 words it."""

from __future__ import annotations

import heapq
import math
from collections import deque

from block_pool import Block
from block_tables import CHUNK, Seq
from reference import Reference

from tuner.simulator.difftest.transfer_cases import Move, TransferCase


class TransferReference(Reference):
    """Implements `difftest.transfer_cases.TransferScheduler`; no images, no drafts."""

    def __init__(self, case: TransferCase) -> None:
        super().__init__(case.config.settings(), case.num_kv_blocks)
        self.fences = self.limits.overlapped and case.role != "kv_producer"
        self.drops = case.role != "kv_consumer"
        self.recomputes = case.policy == "recompute"
        self.moves: dict[int, Move] = {}
        self.remote: set[int] = set()  # its load has not started
        self.with_kv: list[Seq] = []  # kv_holding_waiting
        self.loading: dict[int, int] = {}  # request to tokens of its own hits
        self.arrived: set[int] = set()
        self.ready: set[int] = set()
        self.held: dict[int, Seq] = {}
        self.started: list[int] = []
        self.just_held: list[int] = []
        self.reports: tuple[list[int], list[int]] = ([], [])

    def expect(self, number: int, move: Move) -> None:
        self.moves[number] = move
        if move.remote:
            self.remote.add(number)

    def take_started(self) -> list[int]:
        started, self.started = self.started, []
        return started

    def take_held(self) -> list[int]:
        held, self.just_held = self.just_held, []
        return held

    def report(self, received: list[int], sent: list[int]) -> None:
        self.reports = (received, sent)

    def report_idle(self) -> list[int]:
        return self._see_reports()

    def holding(self) -> list[int]:
        return [seq.number for seq in self.with_kv]

    def update(self, tokens: dict[int, int]) -> list[int]:
        return super().update(tokens) + self._see_reports()

    def _see_reports(self) -> list[int]:
        (received, sent), self.reports = self.reports, ([], [])
        failed = []
        for number in received:
            seq = next(s for s in self.with_kv if s.number == number)
            hit = self.loading.pop(number)
            self.arrived.add(number)
            if self.moves[number].fails:
                seq.computed = hit
                if not self.recomputes:
                    self.with_kv.remove(seq)
                    super()._release(seq)
                    failed.append(number)
        for number in sent:
            super()._release(self.held.pop(number))
        return failed

    def _release(self, seq: Seq) -> None:
        finished = len(seq.tokens) == len(seq.prompt) + seq.max_output
        if finished and self.moves[seq.number].hands_over:
            self.held[seq.number] = seq
            self.just_held.append(seq.number)
        else:
            super()._release(seq)

    def _threshold(self) -> int:
        self.running += self.with_kv  # they count as present
        threshold = super()._threshold()
        del self.running[len(self.running) - len(self.with_kv) :]
        return threshold

    def _preempt(self) -> Seq:
        victim = super()._preempt()
        if self.drops:  # its output in flight is as good as a chunk's: none
            for step in self.steps:
                step[:] = [(s, CHUNK if s is victim else d, gone) for s, d, gone in step]
        return victim

    def _fenced(self) -> bool:
        """Whether the next victim is in the step in flight, which may write to its blocks."""
        victim = self.running[-1]
        if self.limits.priority:
            victim = max(self.running, key=lambda s: s.order)
        return self.fences and any(victim is seq for step in self.steps for seq, _, _ in step)

    def _continue(self, out: dict[Seq, int], threshold: int) -> list[int]:
        preempted: list[int] = []
        for seq in list(self.running):
            n = min(self._wanted(seq, threshold), self.left) if seq in self.running else 0
            if n == 0:
                continue
            while not self._grow(seq, n):
                if self._fenced():
                    return preempted
                victim = self._preempt()
                preempted.append(victim.number)
                if victim in out:
                    self._charge(-out.pop(victim), -1)
                if victim is seq:
                    return preempted
            out[seq] = n
            self._charge(n, 1)
        return preempted

    def _admit(self, out: dict[Seq, int], threshold: int) -> None:
        passed: list[Seq] = []
        while self.left > 0 and len(self.running) < self.limits.max_active:
            if not self.with_kv and not self.waiting:
                break
            seq = self.with_kv[0] if self.with_kv else self.waiting[0]
            if seq.number in self.loading:
                passed.append(self.with_kv.pop(0))
                continue
            self._promote(seq)
            if seq.number in self.remote:
                if not self._load(seq):
                    break
                passed.append(seq)
                self._pop_waiting()
                continue
            n = self._start(seq, threshold)
            if n == 0:
                break
            if self.with_kv:
                self.with_kv.pop(0)
            else:
                self._pop_waiting()
            out[seq] = n
            self._charge(n, 1)
        self.with_kv = passed + self.with_kv
        if self.limits.priority:
            self.with_kv.sort()

    def _pop_waiting(self) -> None:
        if isinstance(self.waiting, deque):
            self.waiting.popleft()
        else:
            heapq.heappop(self.waiting)

    def _promote(self, seq: Seq) -> None:
        """The end of the load has been reported."""
        if seq.number not in self.arrived:
            return
        self.arrived.remove(seq.number)
        if seq.computed == 0:
            super()._release(seq)
            return
        self._hash_blocks(seq, seq.computed)
        self.ready.add(seq.number)
        seq.computed -= seq.computed == len(seq.tokens)

    def _spare(self) -> int:
        return self.limits.watermark_blocks if self.running else 0

    def _reserved(self) -> int:
        """Blocks that those under way still need: partial prefills, and loads that left nothing."""
        under_way = [s for s in self.running if s.in_prompt]
        lost = {s.number for s in self.with_kv} - self.ready - set(self.loading) - self.arrived
        under_way += [s for s in self.with_kv if s.number in lost]
        size = self.limits.block_size
        return sum(max(0, math.ceil(len(s.tokens) / size) - len(s.blocks)) for s in under_way)

    def _load(self, seq: Seq) -> bool:
        """Start to load the prompt, if everything under way can still end."""
        hits = self._hits(seq)
        missing = math.ceil(len(seq.prompt) / self.limits.block_size) - len(hits)
        idle = sum(block.uses == 0 for block in hits)
        if missing + idle + self._spare() > len(self.pool.free) - self._reserved():
            return False
        self._take(seq, hits)
        seq.blocks += [self.pool.take() for _ in range(missing)]
        self.remote.remove(seq.number)
        self.loading[seq.number] = seq.computed
        self.started.append(seq.number)
        seq.computed = len(seq.prompt)
        return True

    def _take(self, seq: Seq, hits: list[Block]) -> None:
        self.pool.touch(hits)
        seq.blocks, seq.num_hashed = list(hits), len(hits)
        seq.computed = len(hits) * self.limits.block_size

    def _start(self, seq: Seq, threshold: int) -> int:
        """Admit the request; returns its tokens, 0 when it must wait."""
        ready = seq.number in self.ready
        hits = [] if ready else self._hits(seq)
        known = seq.computed if ready else len(hits) * self.limits.block_size
        n = len(seq.tokens) - known
        n = min(n, threshold or n)
        if not self.limits.chunked and n > self.left:
            return 0
        n = min(n, self.left)
        fits = self._spare() <= len(self.pool.free) if ready else self._fits(seq, hits, n)
        if not fits:
            return 0
        if not ready:
            self._take(seq, hits)
        self.ready.discard(seq.number)
        assert self._grow(seq, n)
        self.running.append(seq)
        self.fresh.append(seq)
        return n
