"""The engine's server process: `python -m profiler.engines.vllm.server REPLY_FD`.

Holds one `AsyncLLM` with vLLM's default multi-process engine, and sends it requests open loop
from the same process, so that no HTTP stands between the clock and the engine.

Commands, JSON lines on standard input: `start` (engine_args, device, cores to stay on), then any
number of `replay` (requests: an .npz to read, times: an .npz to write, step_budget, seed), then
`stop`. Replies, JSON lines on REPLY_FD: `ready` (facts), `progress`, `done`, `refused` or `died`
(message).
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from queue import SimpleQueue
from typing import Any

import numpy as np

from profiler.engines.base import Requests
from profiler.engines.openloop import OpenLoop, Stream, run_with_heartbeat
from profiler.engines.prompts import make_prompt
from profiler.engines.vllm.session import end_with_parent, read_commands
from profiler.engines.vllm.spec import BUDGET_ARGUMENT, REHEARSAL_WORKER

Message = dict[str, Any]
Reply = Callable[[Message], None]
Serve = Callable[[Any, Message, SimpleQueue[Message], Reply], Coroutine[Any, Any, None]]
_START_METHOD = "VLLM_WORKER_MULTIPROC_METHOD"
_SCHEDULER = "profiler.engines.vllm.recorder.RecordingScheduler"
_WORKER = "profiler.engines.vllm.worker.PinnedWorker"
_WARM_UP_TOKENS = 4096
"""longest prompt chunk that is warmed up"""


def main(serve: Serve, run: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run) -> None:
    """Start vLLM as the parent's first command says, then `serve` it, run by `run`.

    Parameters
    ----------
    serve
        Called with the started `AsyncLLM`, the `start` command, the queue of later commands, and
        a function that replies; replies with `death` to an error.
    """
    reply_fd = int(sys.argv[1])

    def reply(message: Message) -> None:
        os.write(reply_fd, json.dumps(message).encode() + b"\n")

    end_with_parent()
    commands: SimpleQueue[Message] = SimpleQueue()
    threading.Thread(target=read_commands, args=(commands,), daemon=True).start()
    start = commands.get()
    if start.get("cores"):
        _bind(start["cores"])
    try:
        engine = _start_engine(start["engine_args"], start["device"])
    except Exception as error:  # reported to the parent, which decides
        traceback.print_exc()
        reply({"event": "refused", "message": f"{type(error).__name__}: {error}"})
        return
    run(serve(engine, start, commands, reply))


def _bind(cores: list[int]) -> None:
    """Keep every thread of this process, and all that it starts later, on these cores."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), cores)


def _start_engine(arguments: dict[str, Any], device: str) -> Any:
    """A started `AsyncLLM`, with the defaults that `vllm serve` would use."""
    from vllm import AsyncEngineArgs
    from vllm.config import KVTransferConfig
    from vllm.platforms import current_platform
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.async_llm import AsyncLLM

    if device not in ("auto", current_platform.device_type):
        raise ValueError(f"this vLLM runs on {current_platform.device_type}, not on {device}")
    worker = arguments.get("worker_cls")
    fork = (
        current_platform.is_cpu()
        and worker in (None, REHEARSAL_WORKER)
        and _START_METHOD not in os.environ
    )
    if fork:
        arguments = {"worker_cls": _WORKER, **arguments}
    if "kv_transfer_config" in arguments:
        transfer = KVTransferConfig(**arguments["kv_transfer_config"])
        arguments = {**arguments, "kv_transfer_config": transfer}
    settings = AsyncEngineArgs(
        **arguments, skip_tokenizer_init=True, scheduler_cls=_SCHEDULER, enable_log_requests=False
    )
    usage = UsageContext.OPENAI_API_SERVER
    config = settings.create_engine_config(usage)
    if worker == REHEARSAL_WORKER:  # it stands for a device that steps by itself
        config.scheduler_config.async_scheduling = arguments["async_scheduling"]
    if fork:  # vLLM's CPU platform has just asked for spawned processes, which import all again
        os.environ[_START_METHOD] = "fork"
    return AsyncLLM.from_vllm_config(
        config, usage_context=usage, disable_log_stats=settings.disable_log_stats
    )


async def warmed_up(engine: Any) -> tuple[_Client, dict[str, Any]]:
    """A client of the engine after a warm-up, and the engine's facts."""
    from vllm import __version__
    from vllm.platforms import current_platform

    from profiler.engines.vllm.facts import engine_facts

    client = _Client(engine)
    await client.warm_up()
    gc.collect()
    gc.freeze()
    return client, engine_facts(engine.vllm_config, __version__, current_platform.device_type)


def death(group: BaseExceptionGroup[Exception]) -> Message:
    """The reply for errors that end the server."""
    error = group.exceptions[0]
    return {"event": "died", "message": f"{type(error).__name__}: {error}"}


async def _serve(engine: Any, start: Message, commands: SimpleQueue[Message], reply: Reply) -> None:
    try:
        client, facts = await warmed_up(engine)
        reply({"event": "ready", "facts": facts})
        while (command := await asyncio.to_thread(commands.get))["command"] == "replay":
            await client.replay(command, reply)
        engine.shutdown()
    except* Exception as group:
        reply(death(group))


class _Client:
    """Sends made-up prompts to one engine."""

    def __init__(self, engine: Any) -> None:
        from vllm.v1.engine.exceptions import EngineDeadError

        self.dead = EngineDeadError
        self._engine = engine
        self._vocab_size = engine.vllm_config.model_config.get_vocab_size()
        self._num_replays = 0

    async def warm_up(self) -> None:
        """Run chunks of many sizes, one at a time, then decodes together."""
        config = self._engine.vllm_config
        budget = config.scheduler_config.max_num_batched_tokens
        longest = min(budget, config.model_config.max_model_len - 16, _WARM_UP_TOKENS)
        chunks = [n for n in (2**k for k in range(4, 13)) if n < longest] + [longest]
        for lengths in (*([n] for n in chunks), [16] * 32):
            count = len(lengths)
            requests = Requests(np.zeros(count), np.array(lengths), np.full(count, 8), seed=0)
            loop = OpenLoop(requests.arrival_s, self._preparer(requests), (self.dead,))
            await loop.run()
            if loop.first_failure:
                raise RuntimeError(f"warm-up failed: {loop.first_failure}")

    async def replay(self, command: Message, reply: Reply) -> None:
        """Send the requests of `command`, and write when each token came."""
        with np.load(command["requests"], allow_pickle=False) as file:
            arrays = dict(file)
        options = ("step_budget", "seed", "prefix_block_tokens")
        requests = Requests(**arrays, **{name: command[name] for name in options})
        loop = OpenLoop(requests.arrival_s, self._preparer(requests), (self.dead,))

        def beat() -> None:
            silence = {"silence_s": loop.silence_s(), "num_done": loop.num_done}
            reply({"event": "progress", **silence})

        await run_with_heartbeat(loop.run(), beat)
        times = loop.token_times(requests.prompt_tokens)
        np.savez(
            command["times"],
            sent_s=times.sent_s,
            num_tokens=np.array([t.size for t in times.token_s], dtype=np.int64),
            token_s=np.concatenate([*times.token_s, np.empty(0)]),
            failed=times.failed,
            origin_s=times.origin_s,
        )
        reply({"event": "done", "first_failure": loop.first_failure})

    def _preparer(self, requests: Requests) -> Callable[[int], Callable[[], Stream]]:
        """See `make_prompt` for the prompts."""
        from vllm import SamplingParams
        from vllm.inputs.engine import tokens_input
        from vllm.sampling_params import RequestOutputKind

        self._num_replays += 1
        replay = self._num_replays
        budget = requests.step_budget
        extra = None if budget is None else {BUDGET_ARGUMENT: budget}

        def prepare(i: int) -> Callable[[], Stream]:
            prompt = make_prompt(requests, i, self._vocab_size, replay)
            params = SamplingParams(
                max_tokens=int(requests.output_tokens[i]),
                ignore_eos=True,
                detokenize=False,
                output_kind=RequestOutputKind.DELTA,
                extra_args=extra,
            )
            priority = 0 if requests.priority is None else int(requests.priority[i])

            async def send() -> AsyncIterator[int]:
                answer = self._engine.generate(
                    tokens_input(prompt), params, f"{replay}-{i}", priority=priority
                )
                async for output in answer:
                    yield len(output.outputs[0].token_ids)

            return send

        return prepare


if __name__ == "__main__":
    main(_serve)
