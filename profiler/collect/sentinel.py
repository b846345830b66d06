"""The fixed sentinel batch: how fast is the machine now?

The host's speed drifts by tens of per cent within minutes. The sentinel is the same small work
every time, repeated all through a profile; step times are then brought to one reference speed.
One request at a time makes its batches the same under every configuration of an engine.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from profiler.engines.base import Engine, Requests
from profiler.errors import EngineError
from profiler.outcomes import TokenTimes
from profiler.steps import StepSamples

FloatArray = npt.NDArray[np.float64]

PROMPT_TOKENS = 128
OUTPUT_TOKENS = 9
REPEATS = 4
"""by which `run_sentinel` makes its own noise about 2 %"""
_SMOOTH = 5
"""neighbouring readings whose median is taken: a reading alone is noisy"""


@dataclass(frozen=True)
class Reading:
    """One run of the sentinel."""

    start_s: float
    """on the engine's clock"""
    end_s: float
    prefill_s: float
    """device time of its prompt"""
    decode_s: float
    """median device time of its decode steps"""
    frontend_in_s: float
    """from send to the start of the first step; the engine was idle"""
    frontend_out_s: float
    """median from the end of a step to the token at the client"""

    @property
    def seconds(self) -> float:
        """Device time of one prompt and its decodes."""
        return self.prefill_s + (OUTPUT_TOKENS - 1) * self.decode_s


def run_sentinel(engine: Engine) -> float:
    """Seconds of the fixed sentinel batch now: the median of a few runs. The engine must be idle,
    and steps recorded before are dropped (take them first)."""
    return float(np.median([read_sentinel(engine)[0].seconds for _ in range(REPEATS)]))


def read_sentinel(engine: Engine) -> tuple[Reading, StepSamples]:
    """Run the sentinel once: its reading and its steps (flagged).

    Raises
    ------
    EngineError
        The engine recorded no step of it.
    """
    engine.take_steps()
    times = engine.replay(_request(time.monotonic_ns() % 2**31))
    steps = engine.take_steps()
    decodes = steps.prefill_tokens == 0
    if not decodes.any():
        raise EngineError(
            "the engine recorded no step of the sentinel batch; its step recorder does not work"
        )
    steps = replace(steps, is_sentinel=np.ones(steps.num_steps, dtype=np.bool_))
    end_s = last_token_s(times)
    reading = Reading(
        start_s=times.origin_s,
        end_s=end_s,
        prefill_s=float(steps.exec_s[~decodes].sum()),
        decode_s=float(np.median(steps.exec_s[decodes])),
        frontend_in_s=float(steps.start_s[0] - times.origin_s - times.sent_s[0]),
        frontend_out_s=float(np.median(_out_s(times, steps))),
    )
    return reading, steps


def _request(seed: int) -> Requests:
    """A fresh prompt each time: a prefix cache must not know it."""
    return Requests(
        arrival_s=np.zeros(1),
        prompt_tokens=np.array([PROMPT_TOKENS]),
        output_tokens=np.array([OUTPUT_TOKENS]),
        seed=seed,
    )


def last_token_s(times: TokenTimes) -> float:
    """The engine's clock at the last token of a replay; at its start when there was none."""
    last = max((float(t[-1]) for t in times.token_s if t.size), default=0.0)
    return times.origin_s + last


def _out_s(times: TokenTimes, steps: StepSamples) -> FloatArray:
    """From the end of each step that gave a token to that token."""
    ends = step_ends_s(steps)
    tokens = times.origin_s + times.token_s[0]
    num = min(tokens.size, ends.size)
    return np.asarray(tokens[tokens.size - num :] - ends[ends.size - num :], dtype=np.float64)


def step_ends_s(steps: StepSamples) -> FloatArray:
    """(S,) the engine's clock at the output of each step; S consecutive steps."""
    ends = np.empty(steps.num_steps)
    end_s = -np.inf
    for i in range(steps.num_steps):
        end_s = max(end_s, steps.start_s[i] + steps.schedule_s[i]) + steps.exec_s[i]
        ends[i] = end_s
    return ends


def smoothed_s(readings: Sequence[Reading]) -> FloatArray:
    """(R,) seconds of each reading: the median of it and its neighbours."""
    seconds = np.array([r.seconds for r in readings])
    half = min(_SMOOTH // 2, (len(readings) - 1) // 2)
    padded = np.pad(seconds, half, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    return np.asarray(np.median(windows, axis=1), dtype=np.float64)


def reference_s(readings: Sequence[Reading]) -> float:
    """Seconds of the sentinel at the profile's reference speed: the median reading."""
    return float(np.median([r.seconds for r in readings]))


def speed_at(readings: Sequence[Reading], at_s: FloatArray) -> FloatArray:
    """(S,) machine speed at the times `at_s`, relative to the reference; by interpolation."""
    middles = [(r.start_s + r.end_s) / 2 for r in readings]
    speed = np.interp(at_s, middles, reference_s(readings) / smoothed_s(readings))
    return np.asarray(speed, dtype=np.float64)


def spread(readings: Sequence[Reading]) -> float:
    """(p95 - p5) / median of the smoothed readings: the machine's own drift."""
    low, middle, high = np.quantile(smoothed_s(readings), [0.05, 0.5, 0.95])
    return float((high - low) / middle)


def noise(readings: Sequence[Reading]) -> float:
    """Median relative distance of a reading from its smoothed value: the sentinel's own noise."""
    seconds = np.array([r.seconds for r in readings])
    return float(np.median(np.abs(seconds / smoothed_s(readings) - 1.0)))
