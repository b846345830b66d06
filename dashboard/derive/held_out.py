"""Predicted against measured step times, each step predicted without its own configuration.

Of a profile that was made from published GPU data, whose steps are the published times: the model's
step time against the GPU time that it rests on, that is, what the added terms amount to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dashboard.derive.profiles import profile_place
from dashboard.derive.thinned import thinned
from profiler.collect import Profile
from profiler.collect.silicon import is_predicted
from profiler.engines.base import Progress
from profiler.errors import LatencyModelError
from profiler.latency.fit import FEWEST_STEPS, usable_steps
from profiler.latency.region import columns_of, regions_of
from profiler.latency.report import held_out_predictions
from profiler.latency.step_time import REGION_NAMES
from profiler.steps import StepSamples
from tuner.results import RunFolder

FloatArray = npt.NDArray[np.float64]

MOST_POINTS = 2000
"""of one region"""
EDGES = np.linspace(-50.0, 50.0, 51)
"""of the bins of errors, per cent; the first and last bin hold what lies beyond, too"""
CLOSE = 0.1
"""relative error that the figure's lines mark"""


def held_out(folder: Path, name: str, *, progress: Progress) -> dict[str, Any]:
    """Both times of every step of the profile called `name`, by region.

    Returns
    -------
    `predicted_profile`, `edges_percent`, and `regions`: name -> `num_steps`, `measured_s` and
    `predicted_s` (of at most `MOST_POINTS` steps), `tokens` of these, `share_percent` of steps in
    each bin of the signed error (predicted / measured - 1), `median`, `p95` of its size, `bias`
    (median of the signed error), and `close`, the share of steps within 10 %.

    Raises `LatencyModelError` when there are too few steps.
    """
    progress(0, 2)
    profile = Profile.load(profile_place(RunFolder(folder), name))
    steps = usable_steps(profile.samples)
    if steps.num_steps < 2 * FEWEST_STEPS:
        raise LatencyModelError(
            f"the profile has {steps.num_steps} steps, and holding some out takes "
            f"{2 * FEWEST_STEPS}; profile for longer"
        )
    progress(1, 2)
    published = is_predicted(profile.facts)
    if published:
        predicted = profile.model.device_s(steps)
    else:
        predicted = held_out_predictions(steps, int(profile.facts.get("seed", 0)))
    measured = steps.exec_s * steps.speed
    kinds = regions_of(columns_of(steps))
    regions = {
        REGION_NAMES[kind]: _region(steps, measured, predicted, kinds == kind)
        for kind in np.unique(kinds)
    }
    return {"predicted_profile": published, "edges_percent": EDGES.tolist(), "regions": regions}


def _region(
    steps: StepSamples, measured: FloatArray, predicted: FloatArray, mask: npt.NDArray[np.bool_]
) -> dict[str, Any]:
    """One region of `held_out`."""
    seen, told = measured[mask], predicted[mask]
    tokens = (steps.prefill_tokens + steps.num_decodes)[mask]
    error = told / seen - 1.0
    kept = thinned((seen, told, error), MOST_POINTS)
    binned = np.clip(100 * error, EDGES[0], np.nextafter(EDGES[-1], 0))
    counts, _ = np.histogram(binned, EDGES)
    median, p95 = np.quantile(np.abs(error), [0.5, 0.95])
    return {
        "num_steps": int(mask.sum()),
        "measured_s": _short(seen[kept]),
        "predicted_s": _short(told[kept]),
        "tokens": tokens[kept].tolist(),
        "share_percent": _short(100 * counts / error.size),
        "median": float(median),
        "p95": float(p95),
        "bias": float(np.median(error)),
        "close": float(np.mean(np.abs(error) <= CLOSE)),
    }


def _short(values: FloatArray) -> list[float]:
    """Four digits are more than a figure shows."""
    return [float(f"{value:.4g}") for value in values]
