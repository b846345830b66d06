"""The reference's KV blocks: a list of free ones, a dictionary from content to blocks."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

Key = tuple[int, ...]


@dataclass(eq=False)
class Block:
    uses: int = 0
    key: Key | None = None


class BlockPool:
    def __init__(self, count: int) -> None:
        self.free = deque(Block() for _ in range(count))
        self.by_key: dict[Key, list[Block]] = {}

    def take(self) -> Block:
        """The first free block; its content is lost."""
        block = self.free.popleft()
        if block.key is not None:
            self.by_key[block.key].remove(block)
        block.uses, block.key = 1, None
        return block

    def put(self, key: Key, block: Block) -> None:
        """From now on `block` can be found."""
        block.key = key
        self.by_key.setdefault(key, []).append(block)

    def find(self, keys: list[Key]) -> list[Block]:
        """Blocks with the leading ones of `keys`; of several the one that was put in first."""
        found = []
        for key in keys:
            if not self.by_key.get(key):
                break
            found.append(self.by_key[key][0])
        return found

    def touch(self, blocks: list[Block]) -> None:
        """One more request holds them."""
        for block in blocks:
            if block.uses == 0:
                self.free.remove(block)
            block.uses += 1

    def release(self, blocks: list[Block]) -> None:
        """One request less holds them: un-hashed ones to the front, hashed ones to the back."""
        idle = []
        for block in blocks:
            block.uses -= 1
            if block.uses == 0:
                idle.append(block)
        self.free.extendleft(reversed([b for b in idle if b.key is None]))
        self.free.extend(b for b in idle if b.key is not None)
