"""The open-loop sender, with made-up answers; nothing here depends on how fast they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from profiler.engines.openloop import OpenLoop, run_with_heartbeat


class Gone(Exception):
    """The engine went away."""


def test_a_request_does_not_wait_for_earlier_answers() -> None:
    third_sent = asyncio.Event()

    def prepare(i: int):  # type: ignore[no-untyped-def]
        async def send() -> AsyncIterator[int]:
            if i == 2:
                third_sent.set()
            else:
                await third_sent.wait()  # would never end if the sender waited
            yield 1
            yield 2

        return send

    loop = OpenLoop(np.zeros(3), prepare)
    asyncio.run(loop.run())
    times = loop.token_times(np.array([4, 5, 6]))
    assert [t.size for t in times.token_s] == [3, 3, 3]
    assert all(t[1] == t[2] for t in times.token_s)  # tokens of one message share its time
    assert np.all(times.sent_s >= 0) and not times.failed.any()
    assert loop.num_done == 3
    assert loop.silence_s() == 0.0  # nothing is outstanding


def test_requests_are_sent_in_order_and_never_early() -> None:
    async def answer() -> AsyncIterator[int]:
        yield 1

    arrival_s = np.array([0.0, 0.01, 0.01, 0.03])
    loop = OpenLoop(arrival_s, lambda i: answer)
    asyncio.run(loop.run())
    times = loop.token_times(np.ones(4, dtype=np.int64))
    assert np.all(times.sent_s >= arrival_s)
    assert np.all(np.diff(times.sent_s) >= 0)


def test_one_failure_is_one_failed_request() -> None:
    def prepare(i: int):  # type: ignore[no-untyped-def]
        async def send() -> AsyncIterator[int]:
            yield 1
            if i == 1:
                raise ValueError("too long")

        return send

    loop = OpenLoop(np.zeros(3), prepare, (Gone,))
    asyncio.run(loop.run())
    times = loop.token_times(np.ones(3, dtype=np.int64))
    assert times.failed.tolist() == [False, True, False]
    assert loop.first_failure == "ValueError: too long"
    assert loop.num_done == 3


def test_a_fatal_error_ends_the_run() -> None:
    def prepare(i: int):  # type: ignore[no-untyped-def]
        async def send() -> AsyncIterator[int]:
            yield 1
            if i == 0:
                raise Gone
            await asyncio.Event().wait()  # an answer that never ends

        return send

    loop = OpenLoop(np.array([0.0, 0.0, 3600.0]), prepare, (Gone,))
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(loop.run())
    assert isinstance(caught.value.exceptions[0], Gone)


def test_the_heart_beats_until_the_run_ends() -> None:
    beats: list[int] = []

    async def run() -> None:
        while len(beats) < 3:
            await asyncio.sleep(0)

    asyncio.run(run_with_heartbeat(run(), lambda: beats.append(1), every_s=0.0))
    assert len(beats) == 3
