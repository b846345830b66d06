"""From measured candidates to a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from profiler.errors import SimulationError
from tuner.candidate import Candidate, Verdict
from tuner.metrics import Metrics
from tuner.search.pareto import rank


@dataclass(frozen=True)
class Recommendation:
    """The chosen candidate and how it stands."""

    verdict: Verdict
    chosen: Candidate
    misses: dict[str, float]
    """relative violation of each SLO that the measured run breaks; empty when it meets all"""


Worth = Callable[[Candidate, Metrics], float]
"""the third objective of a candidate with these metrics"""


def recommend(candidates: Sequence[Candidate], worth: Worth | None = None) -> Recommendation:
    """The best *measured* candidate that meets the SLOs, else the closest one.

    Whether the SLOs are met is decided on the figures as measured: nothing is claimed that was not
    seen. Among those that meet them, the ones whose predicted chance to meet them in other windows
    is good come first (see `pareto.rank`); then figures corrected for the machine's speed decide,
    so that a slow minute is not taken for a bad configuration. `candidates[0]` is the engine
    default and must have been measured. `worth` stands for goodput where it is given.
    """
    measured = [c for c in candidates if c.measured is not None and c.corrected is not None]
    raw = [Metrics.from_dict(c.measured) for c in measured if c.measured is not None]
    meeting = [i for i, m in enumerate(raw) if m.meets_slo]
    if not meeting:
        closest = _order(measured, raw, worth)[0]
        return Recommendation(Verdict.NOTHING_MET, measured[closest], _misses(raw[closest]))
    able = [measured[i] for i in meeting]
    chosen = able[_order(able, [_corrected(c) for c in able], worth)[0]]
    verdict = Verdict.DEFAULT_IS_BEST if chosen is candidates[0] else Verdict.MET
    return Recommendation(verdict, chosen, {})


def _order(
    candidates: Sequence[Candidate], metrics: Sequence[Metrics], worth: Worth | None
) -> list[int]:
    if worth is None:
        return rank(metrics)
    return rank(metrics, [worth(c, m) for c, m in zip(candidates, metrics, strict=True)])


def _corrected(candidate: Candidate) -> Metrics:
    """Corrected figures, with the predicted chance: one replay shows no other windows."""
    chance = (candidate.predicted or {}).get("chance", {})
    return replace(Metrics.from_dict(candidate.corrected or {}), chance=chance)


def recommend_predicted(
    candidates: Sequence[Candidate], worths: Sequence[float] | None = None
) -> Recommendation:
    """The best by prediction, for a run that has no engine to measure.

    `worths` are the third objective of those that could be predicted; None: goodput.

    Raises `SimulationError` when no candidate could be predicted.
    """
    predicted = [c for c in candidates if c.predicted is not None]
    if not predicted:
        raise SimulationError(f"no configuration could be predicted: {candidates[0].failure}")
    metrics = [Metrics.from_dict(c.predicted) for c in predicted if c.predicted is not None]
    best = rank(metrics, worths)[0]
    return Recommendation(Verdict.PREDICTED, predicted[best], _misses(metrics[best]))


def _misses(metrics: Metrics) -> dict[str, float]:
    return {name: v for name, v in metrics.violations.items() if v > 0}
