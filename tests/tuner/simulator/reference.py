"""The slow, obvious twin of the simulator: one Python object per request, each looked at in
every step, as vLLM 0.32 words it (no speculation).

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
from encoder_cache import EncoderCache, Picture

from profiler.engine_config import EngineConfig
from tuner.simulator.build import build_limits
from tuner.simulator.difftest.loop import Job, Order
from tuner.simulator.image_build import EncoderSize


@dataclass(eq=False)
class Seq:
    """A request as the scheduler sees it."""

    number: int
    prompt: list[int]
    max_output: int
    order: Order
    tokens: list[int]
    computed: int = 0
    in_flight: int = 0  # output tokens being computed, not seen by the scheduler
    blocks: list[Block] = field(default_factory=list)
    num_hashed: int = 0
    emitting: bool = False
    pictures: list[Picture] = field(default_factory=list)
    encoding: int = 0  # image tokens encoded for it in this step

    def __lt__(self, other: Seq) -> bool:
        return (*self.order, self.number) < (*other.order, other.number)

    @property
    def ending(self) -> bool:
        """Its last token is being computed."""
        return len(self.tokens) + self.in_flight >= len(self.prompt) + self.max_output


class Reference:
    """Implements `difftest.loop.Scheduler`."""

    def __init__(
        self, settings: dict[str, Any], num_kv_blocks: int, encoder: EncoderSize | None = None
    ) -> None:
        self.limits = build_limits(EngineConfig.from_settings(settings), num_kv_blocks)
        budget = self.limits.adaptive_budget
        self.encoder = encoder or EncoderSize(budget, budget)
        self.encoder_cache = EncoderCache(self.encoder.cache_tokens)
        self.pool = BlockPool(num_kv_blocks - 1)
        self.running: list[Seq] = []
        self.waiting: deque[Seq] | list[Seq] = [] if self.limits.priority else deque()
        self.steps: deque[list[Seq]] = deque()

    def add(self, job: Job) -> None:
        order = (job.priority, job.arrival_s)
        pictures = [Picture(*image) for image in job.images]
        seq = Seq(job.number, job.prompt, job.max_output, order, list(job.prompt))
        seq.pictures = pictures
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
        keys = []
        for end in range(size, tokens + 1, size):
            seen = [(p.start, p.identity) for p in seq.pictures if p.start < end]
            keys.append((*seq.tokens[:end], *(number for pair in seen for number in pair)))
        return keys

    def _hash_blocks(self, seq: Seq, tokens: int) -> None:
        if not self.limits.caching:
            return
        keys = self._keys(seq, min(tokens, len(seq.tokens)))
        for i in range(seq.num_hashed, len(keys)):
            self.pool.put(keys[i], seq.blocks[i])
        seq.num_hashed = max(seq.num_hashed, len(keys))

    def _grow(self, seq: Seq, tokens: int) -> bool:
        wanted = math.ceil((seq.computed + tokens) / self.limits.block_size)
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
        self.encoder_cache.leave(victim.number, victim.pictures)
        victim.computed = 0
        if isinstance(self.waiting, deque):
            self.waiting.appendleft(victim)
        else:
            heapq.heappush(self.waiting, victim)
        return victim

    def schedule(self) -> tuple[list[tuple[int, int, int]], list[int], list[int], int]:
        threshold, left = self._threshold(), self.limits.token_budget
        self.encoder_left = self.encoder.budget_tokens
        for seq in self.running:
            seq.encoding = 0
        out: dict[Seq, int] = {}
        left, preempted = self._continue(out, threshold, left)
        if not preempted:
            self._admit(out, threshold, left)
        scheduled = [(seq.number, n, seq.computed) for seq, n in out.items()]
        self.encoded = [(seq.number, seq.encoding) for seq in out if seq.encoding]
        for seq, n in out.items():
            seq.computed += n
            seq.emitting = seq.computed == len(seq.tokens) + seq.in_flight
            seq.in_flight += seq.emitting
        if out:
            self.steps.append([(seq, seq.emitting) for seq in out])
        emitting = [s.number for s in out if s.emitting]
        return scheduled, preempted, emitting, len(self.pool.free)

    def _continue(self, out: dict[Seq, int], threshold: int, left: int) -> tuple[int, list[int]]:
        preempted: list[int] = []
        for seq in list(self.running):
            if left == 0:
                break
            if seq not in self.running or seq.ending:
                continue
            n = len(seq.tokens) + seq.in_flight - seq.computed
            n = min(n, threshold or n, left)
            n, wanted = self._encode(seq, seq.computed, n)
            encoder_left = self.encoder_left
            if n == 0:
                continue
            while not self._grow(seq, n):
                victim = self._preempt()
                preempted.append(victim.number)
                if victim in out:
                    left += out.pop(victim)
                    self.encoder_left += victim.encoding
                if victim is seq:
                    break
            if seq not in self.running:
                break
            if wanted:
                self.encoder_left = encoder_left
            self._put(seq, wanted)
            out[seq] = n
            left -= n
        return left, preempted

    def _admit(self, out: dict[Seq, int], threshold: int, left: int) -> None:
        size = self.limits.block_size
        while self.waiting and left > 0 and len(self.running) < self.limits.max_active:
            seq = self.waiting[0]
            hits: list[Block] = []
            if self.limits.caching:
                hits = self.pool.find(self._keys(seq, len(seq.tokens) - 1))
            n = len(seq.tokens) - len(hits) * size
            n = min(n, threshold or n)
            if not self.limits.chunked and n > left:
                break
            n, pictures = self._encode(seq, len(hits) * size, min(n, left))
            if n == 0:
                break
            wanted = len(hits) * size + n
            if self.limits.reserve_full:
                wanted = len(seq.tokens)
            spare = self.limits.watermark_blocks if self.running else 0
            idle = sum(block.uses == 0 for block in hits)
            if math.ceil(wanted / size) - len(hits) + idle + spare > len(self.pool.free):
                self.encoder_cache.leave(seq.number, seq.pictures)
                break
            if isinstance(self.waiting, deque):
                self.waiting.popleft()
            else:
                heapq.heappop(self.waiting)
            self.pool.touch(hits)
            seq.blocks, seq.num_hashed, seq.computed = list(hits), len(hits), len(hits) * size
            assert self._grow(seq, n)
            self._put(seq, pictures)
            self.running.append(seq)
            out[seq] = n
            left -= n

    def _encode(self, seq: Seq, computed: int, n: int) -> tuple[int, list[Picture]]:
        """Tokens up to the first image that cannot be encoded, and the images to encode."""
        budget, tokens, wanted = self.encoder_left, 0, list[Picture]()
        for p in seq.pictures:
            if p.end <= computed or p.start >= computed + n:
                continue
            if self.limits.whole_images and computed < p.start and computed + n < p.end:
                return p.start - computed, wanted
            if p.identity in [w.identity for w in wanted]:
                wanted.append(p)
                continue
            if self.encoder_cache.need(seq.number, p):
                continue
            if p.tokens > budget - tokens or not self.encoder_cache.room(tokens + p.tokens):
                return max(0, p.start - computed), wanted
            wanted.append(p)
            tokens += p.tokens
        return n, wanted

    def _put(self, seq: Seq, wanted: list[Picture]) -> None:
        """The step encodes these images, each content once."""
        seq.encoding = sum({p.identity: p.tokens for p in wanted}.values())
        self.encoder_left -= seq.encoding
        for p in wanted:
            self.encoder_cache.put(seq.number, p)

    def update(self) -> list[int]:
        finished = []
        for seq, emitting in self.steps.popleft():
            if seq in self.running:
                seen = seq.computed - (seq.in_flight if self.limits.overlapped else 0)
                self.encoder_cache.leave(seq.number, [p for p in seq.pictures if p.end <= seen])
            if not emitting:
                continue
            seq.in_flight -= 1
            seq.tokens.append(-1 - seq.number)  # a token of its own
            if seq in self.running:
                self._hash_blocks(seq, seq.computed - seq.in_flight)
            if len(seq.tokens) == len(seq.prompt) + seq.max_output:
                finished.append(seq.number)
                (self.running if seq in self.running else self.waiting).remove(seq)
                self.encoder_cache.leave(seq.number, seq.pictures)
                self._release(seq)
        if self.limits.priority and finished:
            heapq.heapify(self.waiting)  # type: ignore[arg-type]
        return finished
