"""The reference's requests and the KV blocks that they hold."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from block_pool import Block, BlockPool
from encoder_cache import Picture

from tuner.simulator.difftest.loop import Order
from tuner.simulator.state import Limits

CHUNK = -1
"""instead of a number of drafts: a part of a prompt that does not end it"""


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
    pictures: list[Picture] = field(default_factory=list)
    encoding: int = 0  # image tokens encoded for it in this step
    in_prompt: bool = True  # its next step does not end its known tokens, or has not been scheduled

    def __lt__(self, other: Seq) -> bool:
        return (*self.order, self.number) < (*other.order, other.number)

    @property
    def ending(self) -> bool:
        """Its last token is being computed, whatever becomes of the drafts."""
        last = len(self.prompt) + self.max_output
        return self.in_flight > 0 and len(self.tokens) + 1 >= last


class Tables:
    """Blocks of requests: growing, hashing the full ones, giving them back."""

    limits: Limits
    pool: BlockPool

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
