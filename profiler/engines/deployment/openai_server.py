"""The process of one server: `python -m profiler.engines.deployment.openai_server REPLY_FD`.

vLLM's own OpenAI server (application, routes, HTTP), around an engine that is started and warmed
up as `profiler.engines.vllm.server` does it. Listens on a free port of 127.0.0.1. Commands, JSON
lines on standard input: `start` (as there), then `stop`. Replies on REPLY_FD: `ready` (facts,
port; the port answers a moment later), `refused` or `died` (message).
"""

from __future__ import annotations

import asyncio
from queue import SimpleQueue
from typing import Any

from profiler.engines.vllm.server import Message, Reply, death, main, warmed_up


async def _serve(engine: Any, start: Message, commands: SimpleQueue[Message], reply: Reply) -> None:
    from vllm.entrypoints.launchers.api_server.entry import build_and_serve
    from vllm.entrypoints.launchers.launcher import setup_server

    try:
        _, facts = await warmed_up(engine)
        arguments = _arguments(engine)
        address, listening = setup_server(arguments, reuse_port=False)
        serving = asyncio.ensure_future(build_and_serve(engine, address, listening, arguments))
        reply({"event": "ready", "facts": facts, "port": listening.getsockname()[1]})
        stop = asyncio.create_task(asyncio.to_thread(commands.get))
        await asyncio.wait({serving, stop}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():  # vLLM ends its server when its engine has died
            await serving
            raise RuntimeError("vLLM ended its server")
        serving.cancel()
        engine.shutdown()
    except* Exception as group:
        reply(death(group))


def _arguments(engine: Any) -> Any:
    """The arguments of vLLM's server, all at their defaults but the address and the logs."""
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    arguments = make_arg_parser(FlexibleArgumentParser()).parse_args([])
    arguments.host, arguments.port = "127.0.0.1", 0
    arguments.model = engine.vllm_config.model_config.model
    arguments.skip_tokenizer_init = True
    arguments.disable_uvicorn_access_log = True
    arguments.uvicorn_log_level = "warning"
    return arguments


if __name__ == "__main__":
    import uvloop

    main(_serve, uvloop.run)
