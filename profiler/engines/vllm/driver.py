"""`VllmEngine`: starts a real vLLM in processes of its own, and drives it. Imports no vLLM.

The parent (this file) talks to one server process (`server`), which holds vLLM's front end; vLLM
itself starts its engine core and workers under that. All of them share one session and one log.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
import time
from getpass import getuser
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np

from profiler.engine_config import EngineConfig
from profiler.engines.base import EngineFacts, EngineSpec, Progress, Requests
from profiler.engines.step_file import StepFile, step_samples
from profiler.engines.vllm.child import Child, Message
from profiler.engines.vllm.enginelog import log_tail, one_line, ran_out_of_memory, root_cause
from profiler.engines.vllm.spec import check_spec, engine_arguments, engine_environment
from profiler.errors import EngineDiedError, EngineError, EngineHungError, EngineStartError
from profiler.outcomes import TokenTimes
from profiler.steps import StepSamples

_LOGGER = logging.getLogger(__name__)
_GRACE_S = 4.0
"""how long an idle engine may take to end by itself"""
_HEARTBEAT_MISSED_S = 5.0
"""the server beats four times a second; this long without one is a silence of its own"""


class VllmEngine:
    """A started vLLM; see `profiler.engines.base.Engine`.

    Raises
    ------
    MissingExtraError, ModelFolderError, KnobError
        Before anything is started.
    EngineStartError
        vLLM refused a setting, ran out of memory, died, or was not ready in time.
    """

    facts: EngineFacts

    def __init__(self, spec: EngineSpec) -> None:
        check_spec(spec)
        self._spec = spec
        self._arguments = engine_arguments(spec)
        self._folder = Path(tempfile.mkdtemp(prefix="stallfree-vllm-"))
        self._steps = StepFile(self.steps_file)
        self._stopped = self._busy = False
        own = {
            "STALLFREE_STEPS": str(self.steps_file),
            # sockets and the like, which it leaves behind; not what it compiles
            "TMPDIR": str(self._folder),
            "TORCHINDUCTOR_CACHE_DIR": f"{tempfile.gettempdir()}/torchinductor_{getuser()}",
        }
        environment = engine_environment(spec, own)
        self._child = Child(
            "profiler.engines.vllm.server", environment, self._folder / "engine.log"
        )
        try:
            self.facts = self._wait_ready()
        except BaseException:
            self._end(grace_s=0.0, keep_log=True)
            raise
        self._steps.take()  # the warm-up's

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

    def take_steps(self) -> StepSamples:
        """Steps since the last call; see `profiler.engines.base.Engine.take_steps`."""
        return step_samples(self._steps.take())

    @property
    def steps_file(self) -> Path:
        """Where the engine's scheduler records its steps."""
        return self._folder / "steps.f64"

    @property
    def session(self) -> int:
        """Id of the session that all processes of the engine are in."""
        return self._child.pid

    def stop(self) -> None:
        """End every process of the engine, and remove its files. Never raises."""
        self._end(grace_s=0.0 if self._busy else _GRACE_S, keep_log=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _wait_ready(self) -> EngineFacts:
        start = {"command": "start", "engine_args": self._arguments, "device": self._spec.device}
        self._child.send(start)
        message = self._child.receive(self._spec.start_timeout_s)
        if message is None:
            self._fail(
                EngineStartError,
                f"vLLM was not ready within start_timeout_s = {self._spec.start_timeout_s:g} s; "
                "raise it, or see what the engine waits for",
            )
        if message["event"] != "ready":
            self._fail(EngineStartError, _why_not_started(message, self._child.log))
        facts = message["facts"]
        resolved = EngineConfig.from_settings(facts.pop("resolved"))
        return EngineFacts(engine="vllm", model=self._spec.model, resolved=resolved, **facts)

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

    def _fail(self, error_type: type[EngineError], what: str) -> NoReturn:
        """Stop the engine, keep its log, and raise with the settings and the log's tail."""
        tail = log_tail(self._child.log)
        self._end(grace_s=0.0, keep_log=True)
        tried = ", ".join(f"{k}={v}" for k, v in self._arguments.items())
        error = error_type(f"{what}; settings: {tried}; log: {self._child.log}")
        error.add_note("\n".join(["last lines of the engine's log:", *tail]))
        raise error

    def _end(self, *, grace_s: float, keep_log: bool) -> None:
        if self._stopped:
            return
        self._stopped = True
        if left := self._child.end(grace_s=grace_s):
            _LOGGER.error("processes %s of vLLM cannot be killed; see what they wait for", left)
        if not keep_log:
            shutil.rmtree(self._folder, ignore_errors=True)
            return
        with contextlib.suppress(OSError):
            for path in set(self._folder.iterdir()) - {self._child.log}:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _why_not_started(message: Message, log: Path) -> str:
    """One line: the rule vLLM names, or how its processes ended."""
    if message["event"] == "gone":
        cause = f"its server process ended with code {message['code']}"
        if message["code"] == -9:
            return f"vLLM could not start: {cause}, most often for lack of memory"
        return f"vLLM could not start: {cause}: {root_cause(log)}"
    cause = one_line(message["message"])
    if "initialization failed" in cause:  # said by the front end; the engine core's log knows why
        cause = root_cause(log) or cause
    if ran_out_of_memory(log):
        return (
            f"vLLM ran out of memory at start: {cause}; lower max_model_len, "
            "gpu_memory_utilization or VLLM_CPU_KVCACHE_SPACE"
        )
    return f"vLLM refused to start: {cause}"


def _how_it_died(message: Message, log: Path) -> str:
    if message["event"] == "gone":
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
