"""The reference's encoder cache: which requests need which image, in dictionaries and sets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Picture(NamedTuple):
    """One image of a prompt."""

    start: int
    tokens: int
    identity: int

    @property
    def end(self) -> int:
        return self.start + self.tokens


class EncoderCache:
    def __init__(self, size: int) -> None:
        self.size = size
        self.tokens: dict[int, int] = {}  # of every cached image, in no order
        self.needed: dict[int, set[tuple[int, int]]] = {}  # by which (request, start)
        self.idle: list[int] = []  # cached, needed by nobody; the longest idle first

    def used(self) -> int:
        return sum(self.tokens.values())

    def room(self, tokens: int) -> bool:
        """Whether `tokens` fit, the idle ones thrown out as far as necessary."""
        if self.used() - sum(self.tokens[i] for i in self.idle) + tokens > self.size:
            return False
        while self.used() + tokens > self.size:
            oldest = self.idle.pop(0)
            del self.tokens[oldest], self.needed[oldest]
        return True

    def need(self, number: int, picture: Picture) -> bool:
        """The request needs a picture; False when it is not cached."""
        if picture.identity not in self.tokens:
            return False
        if picture.identity in self.idle:
            self.idle.remove(picture.identity)
        self.needed[picture.identity].add((number, picture.start))
        return True

    def put(self, number: int, picture: Picture) -> None:
        self.tokens.setdefault(picture.identity, picture.tokens)
        self.needed.setdefault(picture.identity, set()).add((number, picture.start))

    def leave(self, number: int, pictures: Iterable[Picture]) -> None:
        """The request needs these pictures no more."""
        for picture in pictures:
            needed = self.needed.get(picture.identity, set())
            if (number, picture.start) in needed:
                needed.remove((number, picture.start))
                if not needed:
                    self.idle.append(picture.identity)
