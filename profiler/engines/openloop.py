"""Open-loop sender: every request goes out at its intended time, whatever became of the others.

Latency is later counted from the *intended* time, so that a slow engine cannot make its own
figures better by slowing the sender down (coordinated omission).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import numpy as np
import numpy.typing as npt

from profiler.outcomes import TokenTimes

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Stream = AsyncIterator[int]
"""the number of new tokens of each message of one answer"""
Prepare = Callable[[int], Callable[[], Stream]]
"""`prepare(i)` makes request i up, ahead of its time; calling what it returns sends it"""

_TICK_S = 1.1e-3
"""event loops wait in whole milliseconds, rounded up"""


class OpenLoop:
    """One open-loop run over N requests. Times are seconds from the start of the run.

    Parameters
    ----------
    arrival_s
        (N,) intended send times; sorted.
    prepare
        Makes up one request; see `Prepare`.
    fatal
        Exceptions that end the whole run; any other marks its request as failed.
    """

    def __init__(
        self, arrival_s: FloatArray, prepare: Prepare, fatal: tuple[type[Exception], ...] = ()
    ) -> None:
        self._arrival_s = arrival_s
        self._prepare = prepare
        self._fatal = fatal
        self._token_s: list[list[float]] = [[] for _ in range(arrival_s.size)]
        self._sent_s = np.full(arrival_s.size, np.nan)
        self._failed = np.zeros(arrival_s.size, dtype=np.bool_)
        self._last_sign_s = 0.0
        self._num_open = 0
        self._origin_s = time.monotonic()
        self.num_done = 0
        self.first_failure = ""

    async def run(self) -> None:
        """Send every request and read every answer to its end.

        Raises one of `fatal`, inside an `ExceptionGroup`, as soon as a request meets it.
        """
        self._origin_s = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for i, intended_s in enumerate(self._arrival_s.tolist()):
                send = self._prepare(i)
                await self._until(intended_s)
                group.create_task(self._follow(i, send))

    async def _until(self, intended_s: float) -> None:
        """Sleep, but go through the event loop again and again in the last moment."""
        await asyncio.sleep(max(0.0, intended_s - self._now() - _TICK_S))
        while self._now() < intended_s:
            await asyncio.sleep(0)

    def silence_s(self) -> float:
        """Seconds without a token, or without a request sent, while answers are outstanding."""
        return self._now() - self._last_sign_s if self._num_open else 0.0

    def token_times(self, prompt_tokens: IntArray) -> TokenTimes:
        """What was seen; `prompt_tokens` (N,) are the lengths that were sent."""
        return TokenTimes(
            intended_s=self._arrival_s,
            sent_s=self._sent_s,
            token_s=[np.array(times, dtype=np.float64) for times in self._token_s],
            prompt_tokens=prompt_tokens,
            failed=self._failed,
            origin_s=self._origin_s,
        )

    def _now(self) -> float:
        return time.monotonic() - self._origin_s

    async def _follow(self, i: int, send: Callable[[], Stream]) -> None:
        times = self._token_s[i]
        self._sent_s[i] = self._now()
        if self._num_open == 0:  # the engine was idle: its silence starts now
            self._last_sign_s = self._sent_s[i]
        self._num_open += 1
        try:
            async for num_new in send():
                now_s = self._now()
                times.extend([now_s] * num_new)
                self._last_sign_s = now_s
        except self._fatal:
            raise
        except Exception as error:
            self._failed[i] = True
            self.first_failure = self.first_failure or f"{type(error).__name__}: {error}"
        finally:
            self._num_open -= 1
            self.num_done += 1


async def run_with_heartbeat(
    run: Coroutine[Any, Any, None], beat: Callable[[], None], every_s: float = 0.25
) -> None:
    """Await `run`, calling `beat` every `every_s` seconds meanwhile."""

    async def beats() -> None:
        while True:
            await asyncio.sleep(every_s)
            beat()

    heart = asyncio.create_task(beats())
    try:
        await run
    finally:
        heart.cancel()
