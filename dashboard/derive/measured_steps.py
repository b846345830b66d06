"""What was measured, against what is simulated: steps of the profile, and requests of replays.

A replay keeps no record of its steps; the profile does, of the slice of the traffic that it
replayed at the engine's own settings and of the batches that it made up.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dashboard.derive.points import opened
from dashboard.derive.replayed import replays_of
from profiler.collect import Profile
from profiler.collect.silicon import is_predicted
from profiler.engine_config import EngineConfig
from profiler.engines.base import Progress
from profiler.outcomes import Outcomes
from profiler.steps import StepSamples
from profiler.traffic.trace import Trace
from tuner.explain import StepView
from tuner.simulator import simulate

MOST_POINTS = 2000
NEAR = 0.15
"""a step is like another whose prompt tokens, decodes and tokens computed before of the prompts are
within this share of its own"""
NEAR_DECODES, NEAR_CONTEXT = 2, 256
"""or, of decodes and of tokens computed before, within so many"""

FloatArray = npt.NDArray[np.float64]
Plain = dict[str, Any]


def step_seconds(samples: StepSamples) -> FloatArray:
    """(S,) seconds from output to output, after an idle engine those of the step itself, at the
    profile's reference speed."""
    alone = samples.schedule_s + samples.exec_s
    seconds: FloatArray = np.where(np.isfinite(samples.interval_s), samples.interval_s, alone)
    return seconds * samples.speed


def similar_steps(profile: Profile, step: StepView) -> Plain | None:
    """Measured steps whose batch is like that of `step`: `count`, `low_s`, `median_s`, `high_s`,
    and the `tokens`, `decodes` and `seconds` of `step`. None without a measured profile."""
    if is_predicted(profile.facts):
        return None
    samples, tokens = profile.samples, sum(c.tokens for c in step.chunks)
    many = max(NEAR_DECODES, NEAR * step.num_decodes)
    before = sum(c.before for c in step.chunks)
    like = (
        ~samples.is_sentinel
        & (np.abs(samples.prefill_tokens - tokens) <= NEAR * tokens)
        & (np.abs(samples.chunk_context - before) <= max(NEAR_CONTEXT, NEAR * before))
        & (np.abs(samples.num_decodes - step.num_decodes) <= many)
    )
    found: Plain = {
        "count": int(like.sum()),
        "tokens": int(tokens),
        "decodes": step.num_decodes,
        "seconds": float(step.seconds),
    }
    if like.any():
        low, median, high = np.percentile(step_seconds(samples.select(like)), [0, 50, 100])
        found |= {"low_s": float(low), "median_s": float(median), "high_s": float(high)}
    return found


def profile_steps(folder: Path, *, progress: Progress) -> Plain:
    """The slice of the traffic that the profile replayed: its measured steps, and simulated ones.

    Both begin with their first step. Returns {} where the profile was not measured, else `requests`
    and, for `measured` and `simulated`, `time_s`, `seconds`, `tokens` (of prompts) and `decodes` of
    at most `MOST_POINTS` steps, the longest of each stretch.
    """
    progress(0, 1)
    profile = opened(folder).measured
    if is_predicted(profile.facts) or not profile.outcomes.num_requests:
        return {}
    samples = profile.samples
    last = samples.configuration == samples.configuration.max()
    own = samples.select(last & ~samples.is_sentinel)
    line = simulate(
        _trace(profile.outcomes),
        EngineConfig.from_settings(profile.facts["resolved"]),
        profile.model,
        num_kv_blocks=int(profile.facts["num_kv_blocks"]),
        timeline=True,
    ).timeline
    assert line is not None  # it was asked for
    measured = _columns(own.start_s, step_seconds(own), own.prefill_tokens, own.num_decodes)
    simulated = _columns(
        line.start_s, line.end_s - line.start_s, line.prefill_tokens, line.num_decodes
    )
    return {
        "requests": profile.outcomes.num_requests,
        "measured": measured,
        "simulated": simulated,
    }


def _trace(outcomes: Outcomes) -> Trace:
    """The traffic that `outcomes` is of, as one class."""
    served = outcomes.output_tokens > 0
    return Trace(
        outcomes.arrival_s[served] - outcomes.arrival_s[served].min(initial=0.0),
        outcomes.prompt_tokens[served],
        outcomes.output_tokens[served],
    )


def _columns(
    start_s: FloatArray,
    seconds: FloatArray,
    tokens: npt.NDArray[np.int64],
    decodes: npt.NDArray[np.int64],
) -> Plain:
    """Lists of at most `MOST_POINTS`: of equal runs of steps the longest one."""
    runs = np.array_split(np.arange(seconds.size), min(MOST_POINTS, max(1, seconds.size)))
    kept = np.array([run[np.argmax(seconds[run])] for run in runs if run.size], dtype=np.int64)
    begin = start_s[0] if start_s.size else 0.0
    return {
        "time_s": [float(f"{t:.6g}") for t in start_s[kept] - begin],
        "seconds": [float(f"{t:.4g}") for t in seconds[kept]],
        "tokens": tokens[kept].tolist(),
        "decodes": decodes[kept].tolist(),
    }


def replayed_ttfts(folder: Path, settings: Plain, *, progress: Progress) -> Plain:
    """TTFT of the replayed requests over their arrival: seen, and predicted for the same.

    Returns {} without kept replays, else `requests`, `arrival_s`, `numbers` (from 1), and `rounds`:
    of each `speed`, `seen_s` and `predicted_s` (None for no first token); of at most `MOST_POINTS`
    requests, evenly taken.
    """
    progress(0, 1)
    kept = replays_of(folder, settings)
    if kept is None:
        return {}
    rows = np.unique(
        np.linspace(0, kept.trace.num_requests - 1, MOST_POINTS).round().astype(np.int64)
    )
    return {
        "arrival_s": [float(f"{t:.6g}") for t in kept.trace.arrival_s[rows]],
        "numbers": (rows + 1).tolist(),
        "requests": kept.trace.num_requests,
        "rounds": [
            {
                "speed": float(saved.facts["speed"]),
                "seen_s": _ttft(saved.raw, rows),
                "predicted_s": _ttft(predicted, rows),
            }
            for saved, predicted in zip(kept.saved, kept.predicted, strict=True)
        ],
    }


def _ttft(outcomes: Outcomes, rows: npt.NDArray[np.int64]) -> list[float | None]:
    ttft = (outcomes.first_token_s - outcomes.arrival_s)[rows]
    return [float(f"{t:.5g}") if np.isfinite(t) else None for t in ttft]
