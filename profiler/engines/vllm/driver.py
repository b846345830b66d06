"""`VllmEngine`: a real vLLM that replays. Imports no vLLM; see `process` for its processes."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import numpy as np

from profiler.engines.base import EngineSpec, Progress, Requests
from profiler.engines.vllm.child import Message
from profiler.engines.vllm.enginelog import one_line, root_cause
from profiler.engines.vllm.process import GONE, VllmProcess
from profiler.errors import EngineDiedError, EngineHungError
from profiler.outcomes import TokenTimes

_LOGGER = logging.getLogger(__name__)
_HEARTBEAT_MISSED_S = 5.0
"""the server beats four times a second; this long without one is a silence of its own"""


class VllmEngine(VllmProcess):
    """A started vLLM; see `profiler.engines.base.Engine`. Raises as `VllmProcess`."""

    def __init__(self, spec: EngineSpec) -> None:
        super().__init__(spec, "profiler.engines.vllm.server")

    def replay(
        self,
        requests: Requests,
        *,
        deadline_s: float = 600.0,
        progress: Progress | None = None,
    ) -> TokenTimes:
        """See `profiler.engines.base.Engine.replay`. The engine is stopped after an error.

        Raises
        ------
        EngineDiedError
            A process of the engine died, or the engine was stopped before.
        EngineHungError
            No token came for `deadline_s` while answers were outstanding.
        """
        if self._stopped:
            raise EngineDiedError("the engine was stopped; start another one")
        self._busy = True
        sent, times = self._folder / "requests.npz", self._folder / "times.npz"
        names = (
            *("arrival_s", "prompt_tokens", "output_tokens"),
            *("priority", "prefix_hashes", "prefix_offsets"),
        )
        arrays = {n: a for n in names if (a := getattr(requests, n)) is not None}
        np.savez(sent, **arrays)
        command = {"command": "replay", "requests": str(sent), "times": str(times)}
        options = ("step_budget", "seed", "prefix_block_tokens")
        self._child.send({**command, **{name: getattr(requests, name) for name in options}})
        self._wait_replayed(requests, deadline_s, progress)
        self._busy = False
        return _read_times(times, requests)

    def _wait_replayed(
        self, requests: Requests, deadline_s: float, progress: Progress | None
    ) -> None:
        total = requests.arrival_s.size
        heard_s = time.monotonic()
        while True:
            message = self._child.receive(0.5)
            if message is None:
                silence_s = time.monotonic() - heard_s
                hung = silence_s > max(deadline_s, _HEARTBEAT_MISSED_S)
            else:
                heard_s = time.monotonic()
                silence_s = message.get("silence_s", 0.0)
                hung = silence_s > deadline_s
                if progress and message["event"] in ("progress", "done"):
                    progress(message.get("num_done", total), total)
            if hung:
                self._fail(
                    EngineHungError,
                    f"vLLM gave no token for {silence_s:.1f} s (deadline_s = {deadline_s:g}) "
                    "with requests outstanding; the engine was stopped",
                )
            if message is None or message["event"] == "progress":
                continue
            if message["event"] != "done":
                self._fail(EngineDiedError, _how_it_died(message, self._child.log))
            if message["first_failure"]:
                _LOGGER.warning("vLLM refused requests; the first: %s", message["first_failure"])
            return


def _how_it_died(message: Message, log: Path) -> str:
    if message["event"] == GONE:
        return f"vLLM died in the middle of a replay: server process ended, code {message['code']}"
    return f"vLLM died in the middle of a replay: {root_cause(log) or one_line(message['message'])}"


def _read_times(path: Path, requests: Requests) -> TokenTimes:
    with np.load(path, allow_pickle=False) as file:
        arrays: dict[str, Any] = dict(file)
    path.unlink()
    ends = np.cumsum(arrays["num_tokens"])
    return TokenTimes(
        intended_s=requests.arrival_s,
        sent_s=arrays["sent_s"],
        token_s=np.split(arrays["token_s"], ends)[:-1],
        prompt_tokens=requests.prompt_tokens,
        failed=arrays["failed"],
        origin_s=float(arrays["origin_s"]),
    )
