"""`Server`: one real vLLM OpenAI server in processes of its own. Imports no vLLM."""

from __future__ import annotations

import time
from dataclasses import replace
from http.client import HTTPConnection, HTTPException

from profiler.engines.base import EngineSpec
from profiler.engines.deployment.spec import ServerSpec
from profiler.engines.record_file import FloatArray
from profiler.engines.rehearsal import REHEARSAL
from profiler.engines.rehearsal.late_file import LateReader, late_file
from profiler.engines.rehearsal.spec import rehearsed_facts, rehearsed_spec
from profiler.engines.rehearsal.transfers import transfer_reader
from profiler.engines.vllm.child import Message
from profiler.engines.vllm.process import VllmProcess
from profiler.errors import EngineStartError
from profiler.outcomes import LateSteps

_HEALTH_S = 30.0
"""longest from a ready engine to a server that answers"""
_POLL_S = 0.05


class Server(VllmProcess):
    """A started server; it answers at 127.0.0.1:`port`. Raises as `VllmProcess`, and as
    `rehearsed_spec` for a rehearsal."""

    def __init__(self, spec: ServerSpec) -> None:
        self.port = 0
        engine = _bound(spec)
        rehearsed = engine.engine == REHEARSAL
        if rehearsed:
            engine = rehearsed_spec(engine)
        module = "profiler.engines.deployment.openai_server"
        super().__init__(engine, module, cores=list(spec.cores))
        self._late = LateReader(late_file(self.steps_file)) if rehearsed else None
        if rehearsed:
            self.facts = rehearsed_facts(self.facts, engine)
        self.take_late()  # the warm-up's
        self._moments = transfer_reader(self.steps_file)

    @property
    def is_alive(self) -> bool:
        """Whether it can still answer, as far as is known."""
        return not self._stopped and self._child.is_alive

    def take_late(self) -> LateSteps | None:
        """How late its steps were since the last call; None for one that computes."""
        return None if self._late is None else self._late.take()

    def take_moments(self) -> FloatArray:
        """Records of `transfer_reader` since the last call; none of an aggregated server."""
        return self._moments.take()

    def _note_ready(self, message: Message) -> None:
        """The engine is ready; wait until HTTP is."""
        self.port = message["port"]
        deadline = time.monotonic() + _HEALTH_S
        while not _is_healthy(self.port):
            if time.monotonic() > deadline or not self._child.is_alive:
                self._fail(
                    EngineStartError,
                    f"vLLM's server did not answer GET /health at port {self.port} within "
                    f"{_HEALTH_S:g} s; see its log",
                )
            time.sleep(_POLL_S)


def _bound(spec: ServerSpec) -> EngineSpec:
    """The engine; vLLM's CPU workers, which choose cores by themselves, are told which."""
    if not spec.cores:
        return spec.engine
    bind = {"VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, spec.cores))}
    return replace(spec.engine, environment={**bind, **spec.engine.environment})


def _is_healthy(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=_HEALTH_S)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
