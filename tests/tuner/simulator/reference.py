"""The slow, obvious twin of the simulator: one Python object per request, each looked at in
every step, as vLLM 0.32 words it, speculative decoding included.

The compiled kernel is compared with it on random small traces: same tokens for the same requests
in the same order, same preemptions, free blocks, queues and times.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from block_pool import Block, BlockPool

from profiler.engine_config import EngineConfig
from tuner.simulator.build import build_limits
from tuner.simulator.difftest.loop import Order


@dataclass(eq=False)
class Seq:
    """A request as the scheduler sees it."""

    number: int
    prompt: list[int]
    max_output: int
    order: Order
    tokens: list[int]
    computed: int = 0  # drafts included, until they are rejected
    in_flight: int = 0  # output tokens being computed, not seen by the scheduler; drafts included
    drafts: int = 0  # to be verified in the next step
    blocks: list[Block] = field(default_factory=list)
    num_hashed: int = 0
    in_prompt: bool = True  # its next step does not end its known tokens, or has not been scheduled

    def __lt__(self, other: Seq) -> bool:
        return (*self.order, self.number) < (*other.order, other.number)

    @property
    def ending(self) -> bool:
        """Its last token is being computed, whatever becomes of the drafts."""
        last = len(self.prompt) + self.max_output
        return self.in_flight > 0 and len(self.tokens) + 1 >= last


class Reference:
    """Implements `difftest.loop.Scheduler`."""

    def __init__(self, settings: dict[str, Any], num_kv_blocks: int) -> None:
        self.limits = build_limits(EngineConfig.from_settings(settings), num_kv_blocks)
        self.pool = BlockPool(num_kv_blocks - 1)
        self.running: list[Seq] = []
        self.waiting: deque[Seq] | list[Seq] = [] if self.limits.priority else deque()
        self.steps: deque[list[tuple[Seq, int, bool]]] = deque()  # emitting, drafts, preempted
        self.fresh: list[Seq] = []  # admitted in the step being built

    def add(self, number: int, prompt: list[int], max_output: int, order: Order) -> None:
        seq = Seq(number, prompt, max_output, order, list(prompt))
        if isinstance(self.waiting, deque):
            self.waiting.append(seq)
        else:
            heapq.heappush(self.waiting, seq)

    def num_running(self) -> int:
        return len(self.running)

    def queues(self) -> tuple[list[int], list[int]]:
        return [s.number for s in self.running], [s.number for s in self.waiting]

    def _keys(self, seq: Seq, tokens: int) -> list[tuple[int, ...]]:
        """Content of each full block among the first `tokens` tokens, with all before it."""
        size = self.limits.block_size
        return [tuple(seq.tokens[: i + size]) for i in range(0, tokens - size + 1, size)]

    def _hash_blocks(self, seq: Seq, tokens: int) -> None:
        if not self.limits.caching:
            return
        keys = self._keys(seq, min(tokens, len(seq.tokens)))
        for i in range(seq.num_hashed, len(keys)):
            self.pool.put(keys[i], seq.blocks[i])
        seq.num_hashed = max(seq.num_hashed, len(keys))

    def _slots(self, tokens: int) -> int:
        """KV slots for `tokens` tokens and what a drafter writes beyond them."""
        if self.limits.num_drafts == 0:
            return tokens
        return min(tokens + self.limits.lookahead, self.limits.max_model_len)

    def _grow(self, seq: Seq, tokens: int) -> bool:
        wanted = math.ceil(self._slots(seq.computed + tokens) / self.limits.block_size)
        missing = max(0, wanted - len(seq.blocks))
        if missing > len(self.pool.free):
            return False
        seq.blocks += [self.pool.take() for _ in range(missing)]
        self._hash_blocks(seq, seq.computed + tokens)
        return True

    def _release(self, seq: Seq) -> None:
        self.pool.release(seq.blocks[::-1])
        seq.blocks, seq.num_hashed = [], 0

    def _threshold(self) -> int:
        present = len(self.running) + len(self.waiting)
        if present <= 1 or not self.limits.threshold:
            return 0
        if self.limits.adaptive:
            return max(self.limits.threshold, self.limits.adaptive_budget // present)
        return self.limits.threshold

    def _preempt(self) -> Seq:
        """Preempt the victim: last in, or the first of the least urgent ones."""
        victim = self.running[-1]
        if self.limits.priority:
            victim = max(self.running, key=lambda s: s.order)
        self.running.remove(victim)
        self._release(victim)
        for step in self.steps:  # its outputs in flight are kept, but not what it has computed
            step[:] = [(s, drafts, gone or s is victim) for s, drafts, gone in step]
        victim.computed = victim.in_flight = victim.drafts = 0
        victim.in_prompt = True
        if isinstance(self.waiting, deque):
            self.waiting.appendleft(victim)
        else:
            heapq.heappush(self.waiting, victim)
        return victim

    def schedule(
        self,
    ) -> tuple[list[tuple[int, int, int]], list[int], list[tuple[int, int]], int]:
        threshold, slots = self._threshold(), self.limits.draft_slots
        left, inputs = self.limits.token_budget, self.limits.adaptive_budget
        out: dict[Seq, int] = {}
        preempted: list[int] = []
        self.fresh = []
        for seq in list(self.running):
            if left == 0 or inputs <= slots:
                break
            if seq not in self.running:
                continue
            n = min(self._wanted(seq, threshold), left, inputs - slots)
            if n == 0:
                continue
            while not self._grow(seq, n):
                victim = self._preempt()
                preempted.append(victim.number)
                if victim in out:
                    inputs += out[victim] + slots
                    left += out.pop(victim)
                if victim is seq:
                    break
            if seq not in self.running:
                break
            out[seq] = n
            left -= n
            inputs -= n + slots
        if not preempted:
            self._admit(out, threshold, left, inputs)
        scheduled = [(seq.number, n, seq.computed) for seq, n in out.items()]
        emitting = self._launch(out)
        return scheduled, preempted, emitting, len(self.pool.free)

    def _wanted(self, seq: Seq, threshold: int) -> int:
        """Tokens a running request would get if it were alone in the step."""
        if seq.ending:
            return 0
        n = len(seq.tokens) + seq.in_flight + seq.drafts - seq.computed
        if self.limits.num_drafts:
            n = min(n, self.limits.max_model_len - seq.computed - 1)
        return min(n, threshold or n)

    def _launch(self, out: dict[Seq, int]) -> list[tuple[int, int]]:
        """Count as computed what has been scheduled. Returns who emits, and its real drafts."""
        step = []
        for seq, n in out.items():
            seq.computed += n
            drafts = seq.computed - len(seq.tokens) - seq.in_flight
            seq.in_prompt, seq.drafts = drafts < 0, 0
            if not seq.in_prompt:
                step.append((seq, drafts, False))
                seq.in_flight += 1 + drafts
                seq.drafts = self.limits.num_drafts
        if out:
            self.steps.append(step)
        return [(seq.number, 0 if seq in self.fresh else drafts) for seq, drafts, _ in step]

    def _hits(self, seq: Seq) -> list[Block]:
        if not self.limits.caching:
            return []
        hits = self.pool.find(self._keys(seq, len(seq.tokens) - 1))
        return hits[:-1] if self.limits.drops_hit else hits

    def _padded(self, seq: Seq, hit: int, out: dict[Seq, int]) -> int:
        """Tokens wanted by a request that starts: a single one is padded like a decode in a step
        of decodes."""
        n, padded = len(seq.tokens) - hit, 1 + self.limits.num_drafts
        ran = [s for s in out if s not in self.fresh]
        decodes_only = not any(s.in_prompt for s in ran) and (ran or hit > 0)
        room = hit + padded + 1 <= self.limits.max_model_len
        return padded if n == 1 and self.limits.num_drafts and decodes_only and room else n

    def _admit(self, out: dict[Seq, int], threshold: int, left: int, inputs: int) -> None:
        size, slots = self.limits.block_size, self.limits.draft_slots
        while self.waiting and len(self.running) < self.limits.max_active:
            room = min(left, inputs - slots)
            if room <= 0:
                break
            seq = self.waiting[0]
            hits = self._hits(seq)
            hit = len(hits) * size
            n = self._padded(seq, hit, out)
            if n > max(room, len(seq.tokens) - hit):
                break
            n = min(n, threshold or n)
            if not self.limits.chunked and n > room:
                break
            n = min(n, room)
            wanted = self._slots(hit + n)
            if self.limits.reserve_full:
                wanted = max(wanted, len(seq.tokens))
            spare = self.limits.watermark_blocks if self.running else 0
            idle = sum(block.uses == 0 for block in hits)
            missing = max(0, math.ceil(wanted / size) - len(hits))
            if missing + idle + spare > len(self.pool.free):
                break
            if isinstance(self.waiting, deque):
                self.waiting.popleft()
            else:
                heapq.heappop(self.waiting)
            self.pool.touch(hits)
            seq.blocks, seq.num_hashed, seq.computed = list(hits), len(hits), hit
            assert self._grow(seq, n)
            self.running.append(seq)
            self.fresh.append(seq)
            out[seq] = n
            left -= n
            inputs -= n + slots

    def update(self, tokens: dict[int, int]) -> list[int]:
        finished = []
        for seq, drafts, preempted in self.steps.popleft():
            last = len(seq.prompt) + seq.max_output
            if len(seq.tokens) == last:
                continue  # ended by the step before; this one was for nothing
            count = tokens[seq.number]
            if not preempted:
                seq.computed -= drafts - (count - 1)
                seq.in_flight -= 1 + drafts
            seq.tokens += [-1 - seq.number] * min(count, last - len(seq.tokens))  # of its own
            if self.limits.overlapped and not preempted:
                self._hash_blocks(seq, len(seq.tokens) - 1)
            if len(seq.tokens) == last:
                finished.append(seq.number)
                (self.running if seq in self.running else self.waiting).remove(seq)
                self._release(seq)
        if self.limits.priority and finished:
            heapq.heapify(self.waiting)  # type: ignore[arg-type]
        return finished
