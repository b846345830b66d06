"""`VllmProcess`: a real vLLM in processes of its own, started, ready, and ended for certain.

The parent talks to one server process (`server`, or another module built on its `main`), which
holds vLLM's front end; vLLM itself starts its engine core and workers under that. All of them
share one session and one log. Imports no vLLM.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
from getpass import getuser
from pathlib import Path
from typing import Any, NoReturn, Self

from profiler.engine_config import EngineConfig
from profiler.engines.base import EngineFacts, EngineSpec
from profiler.engines.step_file import StepFile, step_samples
from profiler.engines.vllm.child import Child, Message
from profiler.engines.vllm.enginelog import log_tail, one_line, ran_out_of_memory, root_cause
from profiler.engines.vllm.spec import check_spec, engine_arguments, engine_environment
from profiler.errors import EngineError, EngineStartError
from profiler.steps import StepSamples

_LOGGER = logging.getLogger(__name__)
_GRACE_S = 4.0
"""how long an idle engine may take to end by itself"""
GONE = "gone"
"""event of a reply: the server process has ended"""


class VllmProcess:
    """A started vLLM.

    Parameters
    ----------
    spec
        What to start.
    module
        Of the server process; its `main` is `server.main`.
    options
        Further entries of the `start` command.

    Raises
    ------
    MissingExtraError, ModelFolderError, KnobError
        Before anything is started.
    EngineStartError
        vLLM refused a setting, ran out of memory, died, or was not ready in time.
    """

    facts: EngineFacts

    def __init__(self, spec: EngineSpec, module: str, **options: Any) -> None:
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
        self._child = Child(module, environment, self._folder / "engine.log")
        try:
            self.facts = self._wait_ready(options)
        except BaseException:
            self._end(grace_s=0.0, keep_log=True)
            raise
        self._steps.take()  # the warm-up's

    def take_steps(self) -> StepSamples:
        """Steps since the last call; see `profiler.engines.base.Engine.take_steps`."""
        return step_samples(self._steps.take())

    @property
    def steps_file(self) -> Path:
        """Where the engine's scheduler records its steps."""
        return self._folder / "steps.f64"

    @property
    def log(self) -> Path:
        """What all its processes print."""
        return self._child.log

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

    def _wait_ready(self, options: dict[str, Any]) -> EngineFacts:
        start = {"command": "start", "engine_args": self._arguments, "device": self._spec.device}
        self._child.send({**start, **options})
        message = self._child.receive(self._spec.start_timeout_s)
        if message is None:
            self._fail(
                EngineStartError,
                f"vLLM was not ready within start_timeout_s = {self._spec.start_timeout_s:g} s; "
                "raise it, or see what the engine waits for",
            )
        if message["event"] != "ready":
            self._fail(EngineStartError, _why_not_started(message, self._child.log))
        self._note_ready(message)
        facts = message["facts"]
        resolved = EngineConfig.from_settings(facts.pop("resolved"))
        return EngineFacts(engine="vllm", model=self._spec.model, resolved=resolved, **facts)

    def _note_ready(self, message: Message) -> None:
        """For what a server says beside its facts when it is ready."""

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
    if message["event"] == GONE:
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
