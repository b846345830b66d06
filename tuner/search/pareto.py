"""Finished trials: which are on the front, and which deserve the real engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.intervals import ALL
from tuner.knee import knee
from tuner.metrics import Metrics
from tuner.search.objective import values

GOODPUT_TIE = 0.01
"""goodputs within this share of the best count as equal: a few requests at the limit decide it"""
LIKELY = 0.75
"""chance to meet every SLO from which a configuration counts as reliable. Of 8 windows that is 6:
what meets the SLOs in 9 of 10 windows gets there with probability 0.96, what meets them in every
second one with 0.14 (binomial)."""


@dataclass(frozen=True)
class Trial:
    """One finished trial of the search."""

    number: int
    settings: dict[str, Any]
    """the searched and the fixed settings; nothing that is left to the engine"""
    metrics: Metrics | None
    """predicted; None when the configuration was refused"""
    refused: str | None = None
    """why the configuration was refused"""
    worth: float | None = None
    """the third objective; None: goodput"""

    @property
    def feasible(self) -> bool:
        return self.metrics is not None and self.metrics.meets_slo


def _costs(trials: Sequence[Trial]) -> npt.NDArray[np.float64]:
    """(N, 3) every column to be minimised: TTFT p99, ITL p99, minus worth."""
    rows = [values(t.metrics, worth_of(t)) for t in trials if t.metrics is not None]
    return np.array([(ttft, itl, -worth) for ttft, itl, worth in rows]).reshape(-1, 3)


def worth_of(trial: Trial) -> float:
    """The third objective of a predicted trial."""
    if trial.worth is not None:
        return trial.worth
    assert trial.metrics is not None  # a refused trial has none
    return trial.metrics.goodput_rps


def front(trials: Sequence[Trial]) -> list[Trial]:
    """The non-dominated trials: among the feasible ones, or among all when none is feasible."""
    predicted = [t for t in trials if t.metrics is not None]
    pool = [t for t in predicted if t.feasible] or predicted
    costs = _costs(pool)
    no_worse = (costs[:, None, :] <= costs[None, :, :]).all(axis=2)
    better = (costs[:, None, :] < costs[None, :, :]).any(axis=2)
    kept = np.flatnonzero(~(no_worse & better).any(axis=0))
    return [pool[i] for i in kept]


def rank(metrics: Sequence[Metrics], worths: Sequence[float] | None = None) -> list[int]:
    """Indices from best to worst.

    What meets the SLOs comes first, what is also `LIKELY` to before what is not: highest worth
    (goodput where no `worths` are given), those within `GOODPUT_TIE` of the best of their kind by
    their margin to the nearest limit. Then
    the others, by how little they miss. Meeting is a matter of the figures themselves: a chance
    moves in steps of one window, and says nothing of how far a limit is missed.
    """
    worths = [m.goodput_rps for m in metrics] if worths is None else worths
    best = [0.0, 0.0, 0.0]
    for m, worth in zip(metrics, worths, strict=True):
        best[_kind(m)] = max(best[_kind(m)], worth)

    def key(index: int) -> tuple[int, float, float]:
        m, worth = metrics[index], worths[index]
        kind = _kind(m)
        if kind == _MISSES:
            return kind, m.worst_violation, -worth
        tied = worth >= (1 - GOODPUT_TIE) * best[kind]
        return kind, 0.0 if tied else best[kind] - worth, m.worst_violation

    return sorted(range(len(metrics)), key=key)


_LIKELY_MEETS, _MEETS, _MISSES = range(3)


def _kind(metrics: Metrics) -> int:
    if not metrics.meets_slo:
        return _MISSES
    return _LIKELY_MEETS if metrics.chance.get(ALL, 1.0) >= LIKELY else _MEETS


def pick(trials: Sequence[Trial], top: int) -> list[Trial]:
    """At most `top` trials of distinct settings for the real engine; the default is not one.

    In turn: the best by `rank`, the knee of the front, its ends (lowest ITL, lowest TTFT), then
    the rest by `rank`.
    """
    default = trials[0].settings
    distinct: dict[str, Trial] = {}
    for trial in trials[1:]:
        if trial.metrics is not None and trial.settings != default:
            distinct.setdefault(repr(sorted(trial.settings.items())), trial)
    pool = list(distinct.values())
    if not pool:
        return []
    metrics = [t.metrics for t in pool if t.metrics is not None]
    order = [pool[i] for i in rank(metrics, [worth_of(t) for t in pool])]
    chosen = [order[0], *_corners(front(pool)), *order]
    unique = {t.number: t for t in chosen}
    return list(unique.values())[:top]


def _corners(trials: Sequence[Trial]) -> list[Trial]:
    """The knee of a front (nearest to its ideal point), its lowest ITL and its lowest TTFT."""
    costs = _costs(trials)
    return [
        trials[knee(costs)],
        trials[int(np.argmin(costs[:, 1]))],
        trials[int(np.argmin(costs[:, 0]))],
    ]
