"""Distributions of TTFT and ITL, and the engine over time, small enough for a page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dashboard.derive.points import Points, opened, outcomes_of, problem_of, simulated
from dashboard.derive.replayed import replays_of
from profiler.engine_config import EngineConfig
from profiler.engines.base import Progress
from profiler.outcomes import Outcomes
from tuner.metrics import pool, ttfts
from tuner.percentiles import weighted_percentiles
from tuner.search.objective import REFUSED, Problem
from tuner.search.settings import resolve
from tuner.simulator import Timeline
from tuner.spans import spans

PERCENTS = np.unique(
    np.concatenate([[0.0], np.linspace(1, 90, 90), 100 - np.geomspace(10, 1e-4, 101), [100.0]])
)
"""where distributions are kept: dense in the tail"""
COLUMNS = 600
"""most spans of time that are kept of a run"""
ALL = "all"

Kept = list[float | None]


def distributions(folder: Path, points: Points, *, progress: Progress) -> dict[str, Any]:
    """TTFT and ITL of each of `points`, predicted for the run's whole traffic.

    Returns
    -------
    `requests`, `duration_s`, `percents`, and `points`: name -> {"failure": why it cannot be
    simulated} or class or "all" -> see `_distribution`.
    """
    trace = opened(folder).trace
    found: dict[str, Any] = {}
    for done, (name, settings) in enumerate(points.items()):
        progress(done, len(points))
        try:
            found[name] = by_class(outcomes_of(folder, settings), trace.class_names)
        except REFUSED as error:
            found[name] = {"failure": str(error)}
    return {
        "requests": trace.num_requests,
        "duration_s": trace.duration_s,
        "percents": PERCENTS.tolist(),
        "points": found,
    }


def confirmed(folder: Path, points: Points, *, progress: Progress) -> dict[str, Any]:
    """Of each of `points` with kept replays: the distributions seen, and predicted for the same
    requests with the engine's own settings, all rounds pooled.

    Returns
    -------
    `percents`, and `points`: name -> `requests`, `seconds`, `rounds`, `speeds`, and `lines`:
    predicted, seen, corrected -> class or "all" -> see `_distribution`.
    """
    found: dict[str, Any] = {}
    for done, (name, settings) in enumerate(points.items()):
        progress(done, len(points))
        kept = replays_of(folder, settings)
        if kept is None:
            continue
        names = kept.trace.class_names
        found[name] = {
            "requests": kept.trace.num_requests,
            "seconds": kept.trace.duration_s,
            "rounds": len(kept.saved),
            "speeds": [float(s.facts["speed"]) for s in kept.saved],
            "lines": {
                "predicted": by_class(pool(kept.predicted), names),
                "seen": by_class(pool([s.raw for s in kept.saved]), names),
                "corrected": by_class(pool([s.corrected for s in kept.saved]), names),
            },
        }
    return {"percents": PERCENTS.tolist(), "points": found}


def by_class(outcomes: Outcomes, class_names: tuple[str, ...]) -> dict[str, Any]:
    """`_distribution` of everything, and of each class where there are several."""
    everything = np.ones(outcomes.num_requests, dtype=np.bool_)
    found = {ALL: _distribution(outcomes, everything, outcomes.gap_weight.sum(axis=1))}
    if len(class_names) > 1:
        for i, name in enumerate(class_names):
            rows = outcomes.request_class == i
            found[name] = _distribution(outcomes, rows, outcomes.gap_weight[:, i])
    return found


def _distribution(
    outcomes: Outcomes, rows: npt.NDArray[np.bool_], weight: npt.NDArray[np.int64]
) -> dict[str, Any]:
    """`ttft_s`, `itl_s` at `PERCENTS` (None for without end), their numbers of samples
    `num_ttft`, `num_itl`, and `unanswered`: requests without any token."""
    ttft = ttfts(outcomes, rows)
    ones = np.ones(ttft.size, dtype=np.int64)
    return {
        "ttft_s": _finite(weighted_percentiles(ttft, ones, PERCENTS.tolist())),
        "itl_s": _finite(weighted_percentiles(outcomes.gap_s, weight, PERCENTS.tolist())),
        "num_ttft": int(ttft.size),
        "num_itl": int(weight.sum()),
        "unanswered": int(rows.sum() - np.isfinite(ttft).sum()),
    }


def _finite(values: list[float]) -> Kept:
    return [v if np.isfinite(v) else None for v in values]


def over_time(folder: Path, points: Points, *, progress: Progress) -> dict[str, Any]:
    """Queue, batch and KV use of one engine with each of `points`, in at most `COLUMNS` spans.

    Returns
    -------
    name -> {"failure": ...} or `time_s` and, for waiting, running, tokens and kv (%), `peak` and
    `median` of the steps in each span.
    """
    problem = problem_of(folder)
    assert isinstance(problem, Problem)  # pages ask for one engine alone
    found: dict[str, Any] = {}
    for done, (name, settings) in enumerate(points.items()):
        progress(done, len(points))
        full = resolve(EngineConfig.from_settings(settings), problem.resolved)
        try:
            line = simulated(folder, settings).timeline
        except REFUSED as error:
            found[name] = {"failure": str(error)}
            continue
        assert line is not None  # it was asked for
        found[name] = columns_of(line, problem.kv_blocks(full) - 1)
    return found


def columns_of(line: Timeline, usable_blocks: int) -> dict[str, Any]:
    """See `over_time`; nothing but an empty `time_s` without any step."""
    if not line.num_steps:
        return {"time_s": []}
    middles, starts = spans(line.end_s, COLUMNS)
    series = {
        "waiting": line.num_waiting,
        "running": line.num_running,
        "tokens": line.prefill_tokens + line.num_decodes,
        "kv": 100.0 * (1.0 - line.free_blocks / max(1, usable_blocks)),
    }
    found: dict[str, Any] = {"time_s": _rounded(middles)}
    for name, values in series.items():
        parts = np.split(values, starts[1:])
        found[name] = {"peak": _each(np.max, parts), "median": _each(np.median, parts)}
    return found


def _each(of: Callable[..., Any], parts: list[npt.NDArray[Any]]) -> list[float]:
    return _rounded(np.array([of(part) for part in parts], dtype=np.float64))


def _rounded(values: npt.NDArray[np.float64]) -> list[float]:
    """To five digits, which no eye can tell from all of them."""
    return [float(f"{value:.5g}") for value in values]
