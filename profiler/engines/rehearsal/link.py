"""The link of a rehearsed decode server: when each load of KV ends.

The rule of `tuner.simulator.link`: concurrent loads share the bandwidth equally, and each is over
`latency_s` after its last byte.
"""

from __future__ import annotations


class Link:
    """Loads in progress, by a key of their own. Times are seconds of any clock; calls come in
    order of time.

    Parameters
    ----------
    latency_s
        From the last byte to the end.
    bytes_per_s
        Of the link.
    shared
        Whether concurrent loads share the bandwidth; else each has all of it.
    """

    def __init__(self, latency_s: float, bytes_per_s: float, shared: bool) -> None:
        self._latency_s, self._bytes_per_s, self._shared = latency_s, bytes_per_s, shared
        self._at_s = float("-inf")
        self._left: dict[str, float] = {}
        """bytes that are still to come at `_at_s`"""
        self._end_s: dict[str, float] = {}
        """of loads whose last byte has come"""

    def start(self, key: str, size_bytes: float, now_s: float) -> None:
        """A load starts."""
        self._move(now_s)
        if self._shared:
            self._left[key] = size_bytes
        else:
            self._end_s[key] = now_s + size_bytes / self._bytes_per_s + self._latency_s

    def take_ended(self, now_s: float) -> dict[str, float]:
        """The loads that have ended since the last call, with their ends."""
        self._move(now_s)
        ended = {key: end_s for key, end_s in self._end_s.items() if end_s <= now_s}
        for key in ended:
            del self._end_s[key]
        return ended

    def _move(self, now_s: float) -> None:
        """Let the bytes come until `now_s`."""
        while self._left and self._at_s < now_s:
            num, key = len(self._left), min(self._left, key=self._left.__getitem__)
            least = self._left[key]
            step_s = least * num / self._bytes_per_s
            if self._at_s + step_s > now_s:
                moved = (now_s - self._at_s) * self._bytes_per_s / num
                self._left = {k: max(0.0, left - moved) for k, left in self._left.items()}
                break
            self._at_s += step_s
            self._left = {k: left - least for k, left in self._left.items()}
            for done in [k for k, left in self._left.items() if left <= 0.0]:
                del self._left[done]
                self._end_s[done] = self._at_s + self._latency_s
        self._at_s = now_s
