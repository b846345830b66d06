"""The slow, obvious twin of the simulator: one Python object per request, each looked at in
every step, as vLLM 0.32 words it, speculative decoding included.

The compiled kernel is compared with it on random small traces: same tokens for the same requests
in the same order, same preemptions, free blocks, queues and times.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from typing import Any

from block_pool import Block, BlockPool
from block_tables import CHUNK, Seq, Tables
from encoder_cache import EncoderCache, Picture

from profiler.engine_config import EngineConfig
from tuner.simulator.build import build_limits
from tuner.simulator.difftest.loop import Job
from tuner.simulator.image_build import EncoderSize


class Reference(Tables):
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
        self.steps: deque[list[tuple[Seq, int, bool]]] = deque()  # drafts or CHUNK, preempted
        self.fresh: list[Seq] = []  # admitted in the step being built

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
        self.left, self.inputs = self.limits.token_budget, self.limits.adaptive_budget
        self.encoder_left = self.encoder.budget_tokens
        for seq in self.running:
            seq.encoding = 0
        self.fresh = []
        threshold = self._threshold()
        out: dict[Seq, int] = {}
        preempted = self._continue(out, threshold)
        if not preempted:
            self._admit(out, threshold)
        scheduled = [(seq.number, n, seq.computed) for seq, n in out.items()]
        self.encoded = [(seq.number, seq.encoding) for seq in out if seq.encoding]
        emitting = self._launch(out)
        return scheduled, preempted, emitting, len(self.pool.free)

    def _room(self) -> int:
        """Tokens that the next request may get."""
        return max(0, min(self.left, self.inputs - self.limits.draft_slots))

    def _charge(self, tokens: int, requests: int) -> None:
        self.left -= tokens
        self.inputs -= tokens + requests * self.limits.draft_slots

    def _continue(self, out: dict[Seq, int], threshold: int) -> list[int]:
        preempted: list[int] = []
        for seq in list(self.running):
            room = self._room()
            if room == 0:
                break
            if seq not in self.running:
                continue
            n, wanted = self._encode(seq, seq.computed, min(self._wanted(seq, threshold), room))
            encoder_left = self.encoder_left
            if n == 0:
                continue
            while not self._grow(seq, n):
                victim = self._preempt()
                preempted.append(victim.number)
                if victim in out:
                    self._charge(-out.pop(victim), -1)
                    self.encoder_left += victim.encoding
                if victim is seq:
                    break
            if seq not in self.running:
                break
            if wanted:
                self.encoder_left = encoder_left
            self._put(seq, wanted)
            out[seq] = n
            self._charge(n, 1)
        return preempted

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
            step.append((seq, CHUNK if seq.in_prompt else drafts, False))
            if not seq.in_prompt:
                seq.in_flight += 1 + drafts
                seq.drafts = self.limits.num_drafts
        if out:
            self.steps.append(step)
        emitting = [(seq, drafts) for seq, drafts, _ in step if drafts != CHUNK]
        return [(seq.number, 0 if seq in self.fresh else drafts) for seq, drafts in emitting]

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

    def _admit(self, out: dict[Seq, int], threshold: int) -> None:
        size = self.limits.block_size
        while self.waiting and len(self.running) < self.limits.max_active:
            room = self._room()
            if room == 0:
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
            n, pictures = self._encode(seq, hit, min(n, room))
            if n == 0:
                break
            if not self._fits(seq, hits, n):
                self.encoder_cache.leave(seq.number, seq.pictures)
                break
            if isinstance(self.waiting, deque):
                self.waiting.popleft()
            else:
                heapq.heappop(self.waiting)
            self.pool.touch(hits)
            seq.blocks, seq.num_hashed, seq.computed = list(hits), len(hits), hit
            assert self._grow(seq, n)
            self._put(seq, pictures)
            self.running.append(seq)
            self.fresh.append(seq)
            out[seq] = n
            self._charge(n, 1)

    def _fits(self, seq: Seq, hits: list[Block], n: int) -> bool:
        """Whether there are blocks to start the request with `n` tokens after its hits."""
        size = self.limits.block_size
        wanted = self._slots(len(hits) * size + n)
        if self.limits.reserve_full:
            wanted = max(wanted, len(seq.tokens))
        spare = self.limits.watermark_blocks if self.running else 0
        idle = sum(block.uses == 0 for block in hits)
        missing = max(0, math.ceil(wanted / size) - len(hits))
        return missing + idle + spare <= len(self.pool.free)

    def _encode(self, seq: Seq, computed: int, n: int) -> tuple[int, list[Picture]]:
        """Tokens up to the first image that cannot be encoded, and the images to encode: those that
        the tokens reach, and those that the drafter reads with them."""
        budget, tokens, wanted = self.encoder_left, 0, list[Picture]()
        ahead = self.limits.reads_ahead
        end = computed + n + ahead
        for p in seq.pictures:
            if n == 0 or p.end <= computed or p.start >= end:
                continue
            if self.limits.whole_images and computed < p.start and computed + n < p.end:
                return max(0, p.start - computed - ahead), wanted
            if p.identity in [w.identity for w in wanted]:
                wanted.append(p)
                continue
            if self.encoder_cache.need(seq.number, p):
                continue
            if p.tokens > budget - tokens or not self.encoder_cache.room(tokens + p.tokens):
                return max(0, p.start - computed - ahead), wanted
            wanted.append(p)
            tokens += p.tokens
        return n, wanted

    def _put(self, seq: Seq, wanted: list[Picture]) -> None:
        """The step encodes these images, each content once."""
        seq.encoding = sum({p.identity: p.tokens for p in wanted}.values())
        self.encoder_left -= seq.encoding
        for p in wanted:
            self.encoder_cache.put(seq.number, p)

    def update(self, tokens: dict[int, int]) -> list[int]:
        finished = []
        for seq, drafts, preempted in self.steps.popleft():
            last = len(seq.prompt) + seq.max_output
            if len(seq.tokens) == last:
                continue  # ended by the step before; this one was for nothing
            count = 0 if drafts == CHUNK else tokens[seq.number]
            if drafts != CHUNK and not preempted:
                seq.computed -= drafts - (count - 1)
                seq.in_flight -= drafts - (count - 1)
            self._forget_pictures(seq)
            if drafts == CHUNK:
                continue
            if not preempted:
                seq.in_flight -= count
            seq.tokens += [-1 - seq.number] * min(count, last - len(seq.tokens))  # of its own
            if self.limits.overlapped and not preempted:
                self._hash_blocks(seq, len(seq.tokens) - 1)
            if len(seq.tokens) == last:
                finished.append(seq.number)
                (self.running if seq in self.running else self.waiting).remove(seq)
                self.encoder_cache.leave(seq.number, seq.pictures)
                self._release(seq)
        if self.limits.priority and finished:
            heapq.heapify(self.waiting)  # type: ignore[arg-type]
        return finished

    def _forget_pictures(self, seq: Seq) -> None:
        """A step of the request has run: images that it and the drafter are past are let go."""
        if seq in self.running:
            seen = seq.computed - (seq.in_flight if self.limits.overlapped else 0)
            past = [p for p in seq.pictures if p.end + self.limits.reads_ahead <= seen]
            self.encoder_cache.leave(seq.number, past)
