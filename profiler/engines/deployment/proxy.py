"""The proxy's process: `python -m profiler.engines.deployment.proxy REPLY_FD`.

Passes `POST /v1/completions` on to an aggregated server; or asks a prefill server for one token,
and passes the request on to a decode server together with the `kv_transfer_params` of that answer
(vLLM's NIXL convention: `examples` of its disaggregated serving). Commands, JSON lines on standard
input: `start` (aggregated, prefill, decode: lists of ports; rule, decode_rule; port, 0 for any),
then `stop`. Replies on REPLY_FD: `ready` (port).

An answer names the servers that made it, in the headers of `SERVER_HEADER` and `PREFILL_HEADER`.
A server that cannot be reached is answered with 502; one that is lost in the middle of an answer
ends the answer without its end.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, web

from profiler.engines.deployment.routing import Balancer
from profiler.engines.deployment.sockets import raise_file_limit
from profiler.engines.vllm.session import end_with_parent, read_commands

SERVER_HEADER = "X-Stallfree-Server"
"""number of the aggregated or decode server"""
PREFILL_HEADER = "X-Stallfree-Prefill"
"""number of the prefill server"""
PATH = "/v1/completions"
_REQUEST_ID = "X-Request-Id"
_ONE_TOKEN = {"max_tokens": 1, "stream": False}
_NOT_FOR_PREFILL = ("stream_options", "min_tokens")
HAND_OVER = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
_LARGEST_BODY = 1 << 26
_KEEP_S = 2.0
"""idle connections are closed before vLLM closes them (5 s), which would fail a request"""

Json = dict[str, Any]


class BadAnswer(Exception):
    """A server answered with an error: its status and body."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"status {status}")
        self.status, self.body = status, body


class Proxy:
    """Routes requests to servers at ports of 127.0.0.1.

    Parameters
    ----------
    config
        The `start` command.
    """

    def __init__(self, config: Json) -> None:
        self._prefill: list[int] = config["prefill"]
        self._last: list[int] = config["aggregated"] or config["decode"]
        split = bool(self._prefill)
        self._to_prefill = Balancer(len(self._prefill), config["rule"])
        self._to_last = Balancer(len(self._last), config["decode_rule" if split else "rule"])

    def application(self) -> web.Application:
        """The proxy as an aiohttp application."""
        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_post(PATH, self._answer)
        app.router.add_get("/health", self._health)
        app.cleanup_ctx.append(self._client)
        return app

    async def _client(self, app: web.Application) -> Any:
        connector = TCPConnector(limit=0, keepalive_timeout=_KEEP_S)
        timeout = ClientTimeout(total=None)
        async with ClientSession(connector=connector, timeout=timeout) as self._session:
            yield

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {"Content-Type": "application/json"}
        if _REQUEST_ID in request.headers:
            headers[_REQUEST_ID] = request.headers[_REQUEST_ID]
        said: dict[str, str] = {}
        try:
            if self._prefill:
                body, said[PREFILL_HEADER] = await self._prefilled(body, headers)
            with self._to_last.pick() as i:
                said[SERVER_HEADER] = str(i)
                return await self._relay(request, self._last[i], body, headers | said)
        except BadAnswer as error:
            return web.Response(
                status=error.status, body=error.body, content_type="application/json"
            )
        except ClientError as error:
            return _bad_gateway(f"{type(error).__name__}: {error}")
        except (ValueError, KeyError) as error:
            return _bad_gateway(f"the request or an answer breaks the API: {error!r}")

    async def _prefilled(self, body: bytes, headers: dict[str, str]) -> tuple[bytes, str]:
        """The request with what its decode server needs, and the number of its prefill server."""
        asked: Json = json.loads(body)
        first = {k: v for k, v in asked.items() if k not in _NOT_FOR_PREFILL}
        first |= {**_ONE_TOKEN, "kv_transfer_params": HAND_OVER}
        with self._to_prefill.pick() as i:
            url = f"http://127.0.0.1:{self._prefill[i]}{PATH}"
            async with self._session.post(url, data=json.dumps(first), headers=headers) as answer:
                said = await answer.read()
                if answer.status != 200:
                    raise BadAnswer(answer.status, said)
        handed_over = json.loads(said)["kv_transfer_params"]
        if not handed_over:  # the decode server would compute the prompt, without a word
            raise ValueError("the prefill server handed no KV over")
        asked["kv_transfer_params"] = handed_over
        return json.dumps(asked).encode(), str(i)

    async def _relay(
        self, request: web.Request, port: int, body: bytes, headers: dict[str, str]
    ) -> web.StreamResponse:
        """Pass a server's answer on, piece by piece as it comes."""
        url = f"http://127.0.0.1:{port}{PATH}"
        said = {k: headers[k] for k in (SERVER_HEADER, PREFILL_HEADER) if k in headers}
        async with self._session.post(url, data=body, headers=headers) as answer:
            out = web.StreamResponse(status=answer.status, headers=said)
            out.content_type = answer.content_type
            await out.prepare(request)
            try:
                async for piece in answer.content.iter_any():
                    await out.write(piece)
            except ClientError:  # the answer has begun: all that can be done is not to end it
                if request.transport is not None:
                    request.transport.abort()
                return out
            await out.write_eof()
            return out


def _bad_gateway(message: str) -> web.Response:
    error = {"error": {"message": message, "type": "BadGateway", "code": 502}}
    return web.json_response(error, status=502)


async def _serve(config: Json, commands: SimpleQueue[Json], reply_fd: int) -> None:
    runner = web.AppRunner(Proxy(config).application(), access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", config["port"]).start()
    gc.freeze()
    ready = {"event": "ready", "port": runner.addresses[0][1]}
    os.write(reply_fd, json.dumps(ready).encode() + b"\n")
    await asyncio.to_thread(commands.get)
    await runner.cleanup()


def main() -> None:
    end_with_parent()
    raise_file_limit()
    commands: SimpleQueue[Json] = SimpleQueue()
    threading.Thread(target=read_commands, args=(commands,), daemon=True).start()
    run = asyncio.run
    with suppress(ImportError):
        import uvloop

        run = uvloop.run
    run(_serve(commands.get(), commands, int(sys.argv[1])))


if __name__ == "__main__":
    main()
