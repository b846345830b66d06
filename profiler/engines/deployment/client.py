"""Open-loop requests over HTTP, and the time of every token of every answer."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from aiohttp import ClientResponse, ClientSession, ClientTimeout, TCPConnector

from profiler.engines.base import Progress, Requests
from profiler.engines.deployment.proxy import PATH, PREFILL_HEADER, SERVER_HEADER
from profiler.engines.deployment.sockets import raise_file_limit
from profiler.engines.openloop import OpenLoop, Stream
from profiler.engines.prompts import make_prompt
from profiler.engines.vllm.spec import BUDGET_ARGUMENT
from profiler.errors import EngineHungError

FloatArray = npt.NDArray[np.float64]
_BEAT_S = 0.25
_KEEP_S = 2.0
_DATA, _DONE = b"data: ", b"[DONE]"


class RequestFailed(Exception):
    """One request did not get its whole answer; said once, and the request counts as failed."""


class HttpClient:
    """Sends made-up prompts to one address.

    Parameters
    ----------
    url
        Of the proxy, or of one server.
    requests
        What to send.
    vocab_size
        Of the model.
    replay
        Running number of the replay; see `make_prompt`.
    """

    def __init__(self, url: str, requests: Requests, vocab_size: int, replay: int) -> None:
        self._url = url + PATH
        self._requests, self._vocab_size, self._replay = requests, vocab_size, replay
        num = requests.arrival_s.size
        self.server, self.prefill = np.full(num, np.nan), np.full(num, np.nan)
        """(N,) number of the server that made the tokens, and of the prefill server; NaN for
        none"""

    def run(self, deadline_s: float, progress: Progress | None) -> OpenLoop:
        """Send everything and wait for every answer; a request that fails is marked as failed.

        Raises
        ------
        EngineHungError
            No token came for `deadline_s` while answers were outstanding.
        """
        raise_file_limit()
        return asyncio.run(self._run(deadline_s, progress))

    async def _run(self, deadline_s: float, progress: Progress | None) -> OpenLoop:
        connector = TCPConnector(limit=0, keepalive_timeout=_KEEP_S)
        async with ClientSession(
            connector=connector, timeout=ClientTimeout(total=None), read_bufsize=1 << 20
        ) as self._session:
            loop = OpenLoop(self._requests.arrival_s, self._prepare)
            running = asyncio.create_task(loop.run())
            while not running.done():
                await asyncio.wait({running}, timeout=_BEAT_S)
                if progress:
                    progress(loop.num_done, self._requests.arrival_s.size)
                if (silence_s := loop.silence_s()) > deadline_s:
                    running.cancel()
                    await asyncio.wait({running})
                    raise EngineHungError(
                        f"the deployment gave no token for {silence_s:.1f} s "
                        f"(deadline_s = {deadline_s:g}) with requests outstanding"
                    )
            await running
            return loop

    def _prepare(self, i: int) -> Callable[[], Stream]:
        """The request, made up ahead of its time."""
        requests = self._requests
        num_tokens = int(requests.output_tokens[i])
        asked: dict[str, Any] = {
            "prompt": make_prompt(requests, i, self._vocab_size, self._replay),
            "max_tokens": num_tokens,
            "temperature": 0.0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        if requests.priority is not None:
            asked["priority"] = int(requests.priority[i])
        if requests.step_budget is not None:
            asked["vllm_xargs"] = {BUDGET_ARGUMENT: requests.step_budget}
        body = json.dumps(asked).encode()
        headers = {
            "Content-Type": "application/json",
            "X-Request-Id": f"{self._replay}-{i}",
        }

        async def send() -> AsyncIterator[int]:
            async with self._session.post(self._url, data=body, headers=headers) as answer:
                self.server[i] = float(answer.headers.get(SERVER_HEADER, math.nan))
                self.prefill[i] = float(answer.headers.get(PREFILL_HEADER, math.nan))
                num_seen = 0
                async for num_new in new_tokens(answer):
                    num_seen += num_new
                    yield num_new
                if num_seen != num_tokens:
                    raise RequestFailed(f"{num_seen} tokens came of {num_tokens}")

        return send


async def new_tokens(answer: ClientResponse) -> AsyncIterator[int]:
    """The number of new tokens of each message of a streamed answer.

    Raises
    ------
    RequestFailed
        An error instead of an answer or in the middle of it, or an answer without an end.
    """
    if answer.status != 200:
        raise RequestFailed(f"HTTP {answer.status}: {(await answer.text())[:200]}")
    num_seen = 0
    async for line in answer.content:
        if not line.startswith(_DATA):
            continue
        data = line[len(_DATA) :].strip()
        if data == _DONE:
            return
        message = json.loads(data)
        if "error" in message:
            raise RequestFailed(str(message["error"])[:200])
        num_now = message["usage"]["completion_tokens"]
        if num_now > num_seen:
            yield num_now - num_seen
        num_seen = num_now
    raise RequestFailed("the answer ended in its middle")
