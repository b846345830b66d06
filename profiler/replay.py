"""Open-loop replay of a trace on an engine, with a score of its own fidelity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profiler.engines.base import Engine, Progress, Requests
from profiler.errors import EvidenceError, TraceError
from profiler.outcomes import LateSteps, Outcomes, TokenTimes, outcomes_from_token_times
from profiler.traffic.trace import Trace

FloatArray = npt.NDArray[np.float64]
DEFAULT_MAX_LATE_S = 0.02
"""A sender that shares two busy cores with the engine wakes up some milliseconds late; beyond this
it distorts a TTFT by more than a step."""
MAX_LATE_STEPS = 0.02
"""part of a rehearsal's steps that may be late: a p99 sees what happens to one in a hundred"""
MAX_SLOWDOWN = 0.02
"""time that a rehearsal's late steps may cost, as a part of what its steps should have taken"""


@dataclass(frozen=True)
class Fidelity:
    """How late requests were really sent: achieved minus intended send time, seconds.

    Latencies are counted from the intended time, so lateness makes figures worse, never better;
    but a late sender also thins out bursts, and then offers another load than the trace.
    """

    late_p50_s: float
    late_p99_s: float
    late_max_s: float
    max_late_s: float
    """most that `late_p99_s` may be for the replay to count as evidence"""
    steps: LateSteps | None = None
    """how late the engine's own steps were; None for an engine that computes them"""

    @property
    def sends_ok(self) -> bool:
        """Whether requests were sent in time."""
        return self.late_p99_s <= self.max_late_s

    @property
    def steps_ok(self) -> bool:
        """Whether a rehearsed engine kept to its latency model's time."""
        steps = self.steps
        return steps is None or (
            steps.late_share <= MAX_LATE_STEPS and steps.slowdown <= MAX_SLOWDOWN
        )

    @property
    def ok(self) -> bool:
        return self.sends_ok and self.steps_ok


@dataclass(frozen=True)
class Replay:
    """What a replay measured. Filled by `replay`."""

    outcomes: Outcomes
    times: TokenTimes
    fidelity: Fidelity

    def require_evidence(self) -> None:
        """Raise `EvidenceError` when the sender fell behind the trace, or a rehearsed engine
        behind its latency model."""
        if not self.fidelity.sends_ok:
            raise EvidenceError(
                "a replay counts as evidence when 99 % of its requests are sent at most "
                f"{self.fidelity.max_late_s * 1e3:g} ms late, got "
                f"{self.fidelity.late_p99_s * 1e3:.1f} ms; free the machine of other work, or "
                "lower the request rate"
            )
        steps = self.fidelity.steps
        if steps is not None and not self.fidelity.steps_ok:
            raise EvidenceError(
                f"a rehearsal counts as evidence when at most {MAX_LATE_STEPS:.0%} of its steps "
                f"end late and cost at most {MAX_SLOWDOWN:.0%} of its time, got "
                f"{steps.late_share:.1%} late by {steps.mean_late_s * 1e3:.1f} ms on average, "
                f"costing {steps.slowdown:.1%}; free the machine of other work, lower the "
                "request rate, or replay a smaller slice"
            )


def replay(  # noqa: PLR0913  # all but the first two are options by keyword
    engine: Engine,
    trace: Trace,
    *,
    itl_limit_s: FloatArray | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    max_late_s: float = DEFAULT_MAX_LATE_S,
) -> Replay:
    """Send `trace` to `engine` at its own times, and measure what each request saw.

    Parameters
    ----------
    itl_limit_s
        (C,) ITL limit of each request class, seconds; NaN or None for none.
    seed
        Of the made-up prompts.
    max_late_s
        See `Fidelity.max_late_s`. A late replay is returned, and refused by `require_evidence`.

    Raises
    ------
    EngineDiedError, EngineHungError
        The engine did not see the replay through.
    TraceError
        The trace has images.
    """
    if trace.images is not None and trace.images.num:
        raise TraceError(
            f"a replay sends text only, and this trace has {trace.images.num} images; "
            "replay what `stallfree traffic convert --without-images` makes of it"
        )
    requests = Requests(
        arrival_s=trace.arrival_s,
        prompt_tokens=trace.prompt_tokens,
        output_tokens=trace.output_tokens,
        priority=trace.priority,
        prefix_hashes=trace.prefix_hashes,
        prefix_offsets=trace.prefix_offsets,
        prefix_block_tokens=trace.prefix_block_tokens,
        seed=seed,
    )
    times = engine.replay(requests, progress=progress)
    classes = trace.request_class
    if classes is None:
        classes = np.zeros(trace.arrival_s.size, dtype=np.int64)
    limits = np.full(len(trace.class_names), np.nan) if itl_limit_s is None else itl_limit_s
    outcomes = outcomes_from_token_times(times, classes, limits)
    return Replay(outcomes, times, _fidelity(times, max_late_s))


def _fidelity(times: TokenTimes, max_late_s: float) -> Fidelity:
    late_s = times.sent_s - times.intended_s
    if late_s.size == 0:
        return Fidelity(0.0, 0.0, 0.0, max_late_s, times.late_steps)
    p50, p99 = np.percentile(late_s, [50, 99])
    return Fidelity(float(p50), float(p99), float(late_s.max()), max_late_s, times.late_steps)
