"""Figures of configurations against the arrival rate, and the highest rate that meets the SLOs.

The traffic keeps its requests and their order; only the time between arrivals is stretched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

from profiler.engine_config import EngineConfig
from profiler.engines.base import Progress
from profiler.errors import TraceError
from profiler.traffic.trace import Trace
from tuner.metrics import Metrics
from tuner.search.objective import Problem
from tuner.search.searchable import Choice
from tuner.slo import Slo

FACTORS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
"""of the traffic's own arrival rate"""
TOLERANCE = 0.01
"""relative width of the interval that the highest rate is found in"""
LOWEST, HIGHEST = 1 / 64, 16.0
"""factors beyond which no rate is looked for"""

Evaluate = Callable[[Choice, Trace], Metrics]
"""configuration or fleet, and traffic, to metrics"""


@dataclass(frozen=True)
class LoadPoint:
    """One configuration at one arrival rate."""

    factor: float
    rate_rps: float
    metrics: Metrics


@dataclass(frozen=True)
class LoadCurve:
    """One configuration at all arrival rates."""

    name: str
    settings: dict[str, Any]
    points: list[LoadPoint]
    """at the factors asked for"""
    probes: list[LoadPoint]
    """further rates that were tried to find the highest one"""
    highest_rps: float | None
    """highest tried rate that meets every SLO, as all tried below it do; None when there is none,
    or no SLO"""
    bounded: bool
    """a higher rate that misses an SLO was tried, at most 1 % above"""

    @property
    def drawn(self) -> list[LoadPoint]:
        """Points and probes, those beyond the points left out, by rate."""
        rates = [p.rate_rps for p in self.points]
        inside = [p for p in self.probes if min(rates) <= p.rate_rps <= max(rates)]
        return sorted([*self.points, *inside], key=lambda p: p.rate_rps)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "name": self.name,
            "settings": self.settings,
            "highest_rps": self.highest_rps,
            "bounded": self.bounded,
            "points": [_plain(p) for p in self.points],
            "probes": [_plain(p) for p in self.probes],
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> LoadCurve:
        """What `to_dict` wrote."""
        points = {name: [_point(p) for p in plain[name]] for name in ("points", "probes")}
        return cls(**{**plain, **points})


def _point(plain: Mapping[str, Any]) -> LoadPoint:
    return LoadPoint(plain["factor"], plain["rate_rps"], Metrics.from_dict(plain))


def _plain(point: LoadPoint) -> dict[str, Any]:
    return {"factor": point.factor, "rate_rps": point.rate_rps, **point.metrics.to_dict()}


def load_curves(
    problem: Problem,
    configs: Mapping[str, EngineConfig],
    progress: Progress,
    *,
    seed: int = 0,
    factors: Sequence[float] = FACTORS,
) -> list[LoadCurve]:
    """The load curve of each of `configs`, by name; see `curves_of`."""

    def evaluate(config: EngineConfig, trace: Trace) -> Metrics:
        return replace(problem, trace=trace, windows=1).evaluate(config, seed=seed)

    return curves_of(Load(problem.trace, problem.slo, evaluate), configs, progress, factors=factors)


@dataclass(frozen=True)
class Load(Generic[Choice]):
    """Traffic that is stretched, and what is asked of it."""

    trace: Trace
    slo: Slo
    evaluate: Evaluate[Choice]


def curves_of(
    load: Load[Choice],
    choices: Mapping[str, Choice],
    progress: Progress,
    *,
    factors: Sequence[float] = FACTORS,
) -> list[LoadCurve]:
    """The load curve of each of `choices`, configurations or fleets, by name.

    Every point is one whole simulation of the trace, with the same jitter. Raises what
    `load.evaluate` raises, and `TraceError` for traffic without a rate.
    """
    rate = load.trace.rate_rps
    if not math.isfinite(rate):
        raise TraceError(
            "a load curve needs traffic with a rate, and all requests of this one arrive at once; "
            "use a trace with at least two time stamps"
        )
    expected = len(choices) * (len(factors) + _NUM_PROBES)
    curves: dict[str, _Curve] = {}

    def evaluator(choice: Choice) -> Callable[[float], Metrics]:
        def evaluate(factor: float) -> Metrics:
            metrics = load.evaluate(choice, load.trace.scale_rate(rate * factor))
            progress(min(1 + sum(len(c.known) for c in curves.values()), expected), expected)
            return metrics

        return evaluate

    for name, choice in choices.items():
        curves[name] = _Curve(name, choice.settings(), evaluator(choice))
    found = [curve.trace_out(factors, rate, load.slo.has_limits) for curve in curves.values()]
    progress(expected, expected)
    return found


_NUM_PROBES = 6
"""usual number of bisections, for the progress bar"""


@dataclass
class _Curve:
    """One configuration; every rate is simulated once."""

    name: str
    settings: dict[str, Any]
    evaluate: Callable[[float], Metrics]
    """factor of the arrival rate to metrics"""

    def __post_init__(self) -> None:
        self.known: dict[float, Metrics] = {}

    def trace_out(self, factors: Sequence[float], rate: float, limited: bool) -> LoadCurve:
        """The whole curve of traffic of `rate`; a highest one where there are SLOs (`limited`)."""
        for factor in factors:
            self.metrics(factor)
        highest, bounded = self.highest(factors) if limited else (None, False)
        points = [LoadPoint(f, rate * f, m) for f, m in sorted(self.known.items())]
        return LoadCurve(
            name=self.name,
            settings=self.settings,
            points=[p for p in points if p.factor in factors],
            probes=[p for p in points if p.factor not in factors],
            highest_rps=None if highest is None else rate * highest,
            bounded=bounded,
        )

    def metrics(self, factor: float) -> Metrics:
        if factor not in self.known:
            self.known[factor] = self.evaluate(factor)
        return self.known[factor]

    def meets(self, factor: float) -> bool:
        return self.metrics(factor).meets_slo

    def highest(self, factors: Sequence[float]) -> tuple[float | None, bool]:
        """Factor of the highest rate that meets every SLO, and whether one above it does not.

        The first of `factors` that misses an SLO and the one before it are the bracket; beyond
        the ends it is sought by doubling and halving. Then it is bisected.
        """
        good, bad = self._bracket(sorted(factors))
        if good is None:
            return None, True
        if bad is None:
            return good, False
        while bad - good > TOLERANCE * good:
            middle = 0.5 * (good + bad)
            if self.meets(middle):
                good = middle
            else:
                bad = middle
        return good, True

    def _bracket(self, factors: Sequence[float]) -> tuple[float | None, float | None]:
        """(a factor that meets the SLOs, the next one tried that does not), None for no such."""
        good: float | None = None
        for factor in factors:
            if not self.meets(factor):
                return (good, factor) if good is not None else self._bracket_below(factor)
            good = factor
        assert good is not None
        while 2 * good <= HIGHEST:
            if not self.meets(2 * good):
                return good, 2 * good
            good *= 2
        return good, None

    def _bracket_below(self, bad: float) -> tuple[float | None, float | None]:
        while bad / 2 >= LOWEST:
            if self.meets(bad / 2):
                return bad / 2, bad
            bad /= 2
        return None, bad
