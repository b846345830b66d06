"""Which server the proxy sends a request to; the rules of `tuner.simulator.router` by their names.

A request is outstanding on a server from the moment it is sent until the whole answer has come.
Equal choices go to the server with the lowest number.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

ROUND_ROBIN = "round-robin"
LEAST_REQUESTS = "least-requests"
RULES = (ROUND_ROBIN, LEAST_REQUESTS)


class Balancer:
    """Picks one of `num_servers` for each request, by `rule`."""

    def __init__(self, num_servers: int, rule: str) -> None:
        self._rule = rule
        self._outstanding = [0] * num_servers
        self._num_picked = 0

    @contextmanager
    def pick(self) -> Iterator[int]:
        """The number of a server; the request is outstanding until the end of the context."""
        i = self._num_picked % len(self._outstanding)
        if self._rule == LEAST_REQUESTS:
            i = self._outstanding.index(min(self._outstanding))
        self._num_picked += 1
        self._outstanding[i] += 1
        try:
            yield i
        finally:
            self._outstanding[i] -= 1
