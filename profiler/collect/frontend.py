"""How long an engine's front end takes, apart from its steps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from profiler.collect.sentinel import REPEATS, read_sentinel, step_ends_s
from profiler.engines.base import Engine
from profiler.outcomes import TokenTimes
from profiler.steps import StepSamples

FloatArray = npt.NDArray[np.float64]


def inward_s(engine: Engine) -> float:
    """From the client's send to the scheduler at an idle engine, seconds: the median of a few
    sentinel runs. Steps recorded before are dropped."""
    delays = [read_sentinel(engine)[0].frontend_in_s for _ in range(REPEATS)]
    return max(0.0, float(np.median(delays)))


def delivery_s(times: TokenTimes, steps: StepSamples) -> float:
    """Mean from the end of the step that gave a first token to that token at the client, seconds.

    It grows with the number of streams that one front end serves, so it is taken from the replay
    `times` itself; `steps` are those recorded meanwhile. First tokens come from steps with chunks.
    """
    delays = deliveries_s(times, steps)
    return float(delays.mean()) if delays.size else 0.0


def deliveries_s(times: TokenTimes, steps: StepSamples) -> FloatArray:
    """What `delivery_s` is the mean of, one for each request with a token."""
    ends = step_ends_s(steps)[steps.prefill_tokens > 0]
    first = times.origin_s + np.array([t[0] for t in times.token_s if t.size])
    at = np.searchsorted(ends, first, side="right") - 1
    return np.asarray((first - ends[at])[at >= 0], dtype=np.float64)
