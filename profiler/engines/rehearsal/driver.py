"""`RehearsalEngine`: a real vLLM whose steps take a latency model's time. Imports no vLLM."""

from __future__ import annotations

from dataclasses import replace

from profiler.engines.base import EngineSpec, Progress, Requests
from profiler.engines.rehearsal.late_file import LateReader, late_file
from profiler.engines.rehearsal.spec import rehearsed_facts, rehearsed_spec
from profiler.engines.vllm.driver import VllmEngine
from profiler.outcomes import TokenTimes


class RehearsalEngine(VllmEngine):
    """A vLLM that rehearses a GPU; see `profiler.engines.base.Engine`.

    Raises
    ------
    KnobError, LatencyModelError
        As `rehearsed_spec`, before anything is started.
    MissingExtraError, ModelFolderError, EngineStartError
        As `VllmEngine`.
    """

    def __init__(self, spec: EngineSpec) -> None:
        vllm = rehearsed_spec(spec)
        super().__init__(vllm)
        self._late = LateReader(late_file(self.steps_file))
        self._late.take()  # the warm-up's
        self.facts = rehearsed_facts(self.facts, vllm)

    def replay(
        self,
        requests: Requests,
        *,
        deadline_s: float = 600.0,
        progress: Progress | None = None,
    ) -> TokenTimes:
        """As `VllmEngine.replay`, with how late its steps ended."""
        times = super().replay(requests, deadline_s=deadline_s, progress=progress)
        return replace(times, late_steps=self._late.take())
