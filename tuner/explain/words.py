"""Times and lists of an explanation in words."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.explain.steps import Part


def duration(seconds: float) -> str:
    """Milliseconds below a second, else seconds."""
    return f"{1e3 * seconds:,.1f} ms" if abs(seconds) < 1.0 else f"{seconds:,.2f} s"


def share(seconds: float, whole_s: float) -> str:
    """Seconds and their share of the whole."""
    return f"{duration(seconds)} ({seconds / whole_s:.0%})"


def plural(count: int, noun: str) -> str:
    """A count and its noun."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def joined(texts: Sequence[str]) -> str:
    """An enumeration."""
    return ", ".join(texts[:-1]) + " and " + texts[-1] if len(texts) > 1 else "".join(texts)


def listed(parts: Sequence[Part], whole_s: float, most: int = 4) -> str:
    """The parts that are at least 1 % of the whole, the first `most` by name."""
    some = [p for p in parts if abs(p.seconds) >= 0.01 * whole_s]
    rest = sum(p.seconds for p in some[most:])
    texts = [f"{p.what} {share(p.seconds, whole_s)}" for p in some[:most]]
    return ", ".join([*texts, f"the rest {share(rest, whole_s)}"] if rest else texts)
