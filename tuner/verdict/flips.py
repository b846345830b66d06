"""Where a verdict changes along one axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

TOLERANCE = 0.02
"""relative width of the bracket that a change is found in"""

States = Callable[[Sequence[float]], list[str]]
"""what holds at each of some factors"""


@dataclass(frozen=True)
class Change:
    """Something else holds above a factor than below it."""

    low: float
    """largest factor that was tried where `before` holds"""
    high: float
    """smallest factor that was tried where `after` holds"""
    before: str
    after: str

    @property
    def factor(self) -> float:
        return math.sqrt(self.low * self.high)


def find_changes(
    factors: Sequence[float], states: States, tolerance: float = TOLERANCE
) -> list[Change]:
    """Every change between neighbours of the ascending `factors`, by factor.

    Each is bisected (geometrically) until its bracket is `tolerance` wide; a third state met on the
    way splits the bracket in two. Two changes between the same neighbours that undo each other
    are not seen. All brackets are halved at once, in one call of `states`.
    """
    found = states(factors)
    pairs = zip(factors, factors[1:], found, found[1:], strict=False)
    changes = [Change(*pair) for pair in pairs if pair[2] != pair[3]]
    while wide := [c for c in changes if c.high > c.low * (1 + tolerance)]:
        middles = states([c.factor for c in wide])
        changes = [c for c in changes if c not in wide]
        for change, middle in zip(wide, middles, strict=True):
            changes += _split(change, middle)
    return sorted(changes, key=lambda c: c.low)


def _split(change: Change, middle: str) -> list[Change]:
    """What is left of a bracket when `middle` holds at its middle."""
    parts = (
        Change(change.low, change.factor, change.before, middle),
        Change(change.factor, change.high, middle, change.after),
    )
    return [part for part in parts if part.before != part.after]
