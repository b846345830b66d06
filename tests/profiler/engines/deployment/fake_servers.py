"""Servers of a few lines that speak vLLM's API, and the proxy, in one thread; nothing computes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from profiler.engines.deployment.proxy import PATH, Proxy

NOBODY = 9
"""a port of 127.0.0.1 at which nobody listens (discard)"""
Fault = Callable[[int, int], str]
"""(running number of the request at this server, token) -> what goes wrong, "" for nothing"""


def no_fault(number: int, token: int) -> str:
    return ""


@dataclass
class FakeServer:
    """Answers with as many tokens as are asked for."""

    fault: Fault = no_fault
    gap_s: float = 0.0
    """between its tokens"""
    asked: list[dict[str, Any]] = field(default_factory=list)
    request_ids: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        number, asked = len(self.asked), await request.json()
        self.asked.append(asked)
        self.request_ids.append(request.headers.get("X-Request-Id", ""))
        if self.fault(number, -1) == "refuse":
            return web.json_response({"error": {"message": "no"}}, status=400)
        if self.fault(number, -1) == "silent":
            await asyncio.Event().wait()
        if not asked["stream"]:
            params = {"do_remote_prefill": True, "remote_request_id": f"p{number}"}
            return web.json_response({"choices": [{}], "kv_transfer_params": params})
        out = web.StreamResponse()
        await out.prepare(request)
        for token in range(asked["max_tokens"]):
            fault = self.fault(number, token)
            if fault == "die":
                assert request.transport is not None
                request.transport.abort()
                return out
            if fault == "end":
                break
            message: dict[str, Any] = {"choices": [{}], "usage": {"completion_tokens": token + 1}}
            if fault == "error":
                message = {"error": {"message": "the engine is dead"}}
            await asyncio.sleep(self.gap_s if token else 0.0)
            await out.write(f"data: {json.dumps(message)}\n\n".encode())
        if self.fault(number, asked["max_tokens"]) != "no end":
            await out.write(b"data: [DONE]\n\n")
        return out

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_post(PATH, self.answer)
        return app


class Loop:
    """An event loop in a thread of its own, and the applications it serves."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._runners: list[web.AppRunner] = []

    def start(self, app: web.Application) -> int:
        """Serve `app`; returns its port."""
        return asyncio.run_coroutine_threadsafe(self._start(app), self._loop).result()

    async def _start(self, app: web.Application) -> int:
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        self._runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port: int = runner.addresses[0][1]
        return port

    def stop(self) -> None:
        for runner in reversed(self._runners):
            asyncio.run_coroutine_threadsafe(runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def serving(kinds: dict[str, list[FakeServer | None]], rule: str = "round-robin") -> Iterator[str]:
    """Address of a proxy over servers by kind; None stands for one that is gone."""
    loop = Loop()
    try:
        config: dict[str, Any] = {"rule": rule, "decode_rule": rule}
        for kind in ("aggregated", "prefill", "decode"):
            servers = kinds.get(kind, [])
            config[kind] = [loop.start(s.application()) if s else NOBODY for s in servers]
        yield f"http://127.0.0.1:{loop.start(Proxy(config).application())}"
    finally:
        loop.stop()


@contextmanager
def serving_one(server: FakeServer) -> Iterator[int]:
    """Port of one server, without a proxy."""
    loop = Loop()
    try:
        yield loop.start(server.application())
    finally:
        loop.stop()
