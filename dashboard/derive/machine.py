"""The machine's speed over a profile, as its sentinel saw it. Pure."""

from __future__ import annotations

import numpy as np

from dashboard.derive.thinned import thinned
from profiler.collect.sentinel import OUTPUT_TOKENS
from profiler.steps import StepSamples

MOST_POINTS = 1000


def machine_speed(samples: StepSamples, reference_s: float) -> dict[str, list[float]] | None:
    """Speed against the profile's reference: of each run of the sentinel, and as it was used.

    Parameters
    ----------
    samples
        Of a measured profile.
    reference_s
        Seconds of the sentinel at the reference speed.

    Returns
    -------
    `reading_s` and `reading` (one per sentinel run), `used_s` and `used` (of steps, thinned); times
    are seconds since the profile's first step. None without a sentinel.
    """
    rows = np.flatnonzero(samples.is_sentinel)
    if rows.size == 0:
        return None
    origin = float(samples.start_s.min())
    prefill = samples.prefill_tokens[rows] > 0
    begins = np.flatnonzero(prefill & np.append(True, ~prefill[:-1]))
    times, speeds = [], []
    for run in np.split(rows, begins[1:]):
        decodes = samples.prefill_tokens[run] == 0
        if not decodes.any():
            continue
        decode_s = float(np.median(samples.exec_s[run][decodes]))
        seconds = float(samples.exec_s[run][~decodes].sum()) + (OUTPUT_TOKENS - 1) * decode_s
        times.append(round(float(samples.start_s[run[0]]) - origin, 2))
        speeds.append(round(reference_s / seconds, 4))
    order = np.argsort(samples.start_s, kind="stable")
    at, used = samples.start_s[order] - origin, samples.speed[order]
    kept = thinned((at, used), MOST_POINTS)
    return {
        "reading_s": times,
        "reading": speeds,
        "used_s": at[kept].round(2).tolist(),
        "used": used[kept].round(4).tolist(),
    }
