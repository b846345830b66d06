"""Intervals of a prediction and chances to meet the SLOs, from its arrival windows.

Figure
    Always that of the trace itself, the first window (`tuner.windows`). Windows change no
    objective, no constraint and no verdict.
Interval
    90 %, where the figure would lie on endless traffic of this kind. With B drawn windows, t the
    95 % quantile of Student's t with B degrees of freedom, and S the root mean square distance of
    the windows' values from the trace's: value +- t S, the cheap bootstrap (Lam, "A cheap bootstrap
    method for fast inference", 2022, arXiv:2202.00090), which keeps its level however small B is.
    The value is the logarithm of a time, so that the interval stays above 0; a rate or a share as
    it is; and for a percentile of the ITL the share of gaps at or below it, turned back into a gap
    by the trace's own distribution (Woodruff, JASA 47, 1952): gaps with and without a prefill
    beside them lie far apart, and a percentile that jumps between them has no useful S.
Chance to meet
    Share of the windows, the trace included, that meet an SLO; "all" for every SLO at once. With 8
    windows it moves in steps of 1/8.

Measured with the simulator as the truth (`tests/benchmarks/test_window_coverage.py`, 8 windows,
20 to 100 independent traces a case): from 100 to 2,000 requests the medians and goodput are covered
in 84 to 95 % of the traces, ITL p99 in 82 to 94 %, TPOT p99 in 78 to 85 %. TTFT p99: 71 % with 100
requests, where it is the worst two of them and no resampling can know worse ones; 88 to 90 % with
400 and 2,000; 76 % at twice the rate, where long queues give it a heavy tail. An hour whose rate
over time comes back exactly: 95 to 100 %, because windows let the rate vary. The mean chance to
meet was within 0.07 of the share of other traces that met.

What they do not hold: the error of the latency model, and hours whose load differs from the
recorded one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from profiler.outcomes import Outcomes
from tuner.metrics import Metrics, compute
from tuner.percentiles import weighted_percentiles
from tuner.slo import Slo

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

LEVEL = 0.9
"""nominal coverage of the intervals"""
ALL = "all"
"""key of the chance that a window meets every SLO"""
_ITL_PERCENTILES = {"itl_p50_s": 50.0, "itl_p90_s": 90.0, "itl_p99_s": 99.0}
_TIMES = (
    "ttft_mean_s",
    "ttft_p50_s",
    "ttft_p90_s",
    "ttft_p99_s",
    "itl_mean_s",
    "tpot_mean_s",
    "tpot_p50_s",
    "tpot_p99_s",
)
_RATES = ("goodput_rps", "throughput_rps", "output_tokens_per_s", "slo_attainment")

Intervals = dict[str, tuple[float, float]]


def over_windows(outcomes: Outcomes, drawn: Iterable[Outcomes], slo: Slo) -> Metrics:
    """Metrics of the trace's `outcomes`, with intervals and chances from the `drawn` windows'.

    Classes have intervals of their own, from the windows that have requests of the class. `drawn`
    is read one by one, so that one window's outcomes are in memory at a time.
    """
    metrics = compute(outcomes, slo)
    every, parts = [metrics], _parts(outcomes, metrics, slo)
    for window in drawn:
        every.append(compute(window, slo))
        for part in parts:
            part.add(window, every[-1])
    if len(every) == 1:
        return metrics
    overall, *of_classes = (
        replace(p.metrics, num_windows=len(every), intervals=p.intervals()) for p in parts
    )
    names = (p.name for p in parts[1:])
    classes = dict(zip(names, of_classes, strict=True))
    return replace(overall, chance=_chance(every), classes=classes)


def odds(metrics: Mapping[str, Any], slo: str = ALL) -> str:
    """Chance of a `Metrics.to_dict` in windows: "7/8"; "-" when it has none."""
    if slo not in metrics["chance"]:
        return "-"
    return f"{round(metrics['chance'][slo] * metrics['num_windows'])}/{metrics['num_windows']}"


def half_width(trace: FloatArray, windows: FloatArray) -> FloatArray:
    """t S of the cheap bootstrap (Lam 2022, section 2).

    Parameters
    ----------
    trace
        (F,) values of the trace.
    windows
        (B, F) values of the drawn windows, B at least 1.

    Returns
    -------
    (F,)
    """
    spread: FloatArray = np.sqrt(np.mean((windows - trace) ** 2, axis=0))
    return float(stdtrit(len(windows), (1 + LEVEL) / 2)) * spread


@dataclass
class _Part:
    """All requests, or those of one class: of the trace, and what the windows had for them."""

    name: str
    """of the class, "" for all"""
    column: int | None
    """of the class in `Outcomes.gap_weight`, None for all"""
    trace: Outcomes
    metrics: Metrics
    windows: list[Metrics] = field(default_factory=list)
    shares: list[FloatArray] = field(default_factory=list)
    """per window (3,) share of gaps at or below the trace's ITL percentiles"""

    def add(self, window: Outcomes, metrics: Metrics) -> None:
        """Take one drawn window into account, unless it has no such requests."""
        only = self.column is None or (window.request_class == self.column).all()
        own = metrics if only else metrics.classes.get(self.name)
        if own is not None:
            self.windows.append(own)
            self.shares.append(self._share_below(window))

    def intervals(self) -> Intervals:
        """Figure -> (low, high); without the figures that some window lacks."""
        if not self.windows:
            return {}
        found = {}
        for name in (*_TIMES, *_RATES):
            values = np.array([[getattr(m, name)] for m in (self.metrics, *self.windows)])
            if np.isfinite(values).all():
                found[name] = _interval(name, values)
        return found | self._itl_intervals()

    def _itl_intervals(self) -> Intervals:
        """Woodruff's intervals of the ITL percentiles; without them when some window lacks gaps."""
        shares, windows = self._share_below(self.trace), np.array(self.shares)
        if not (np.isfinite(shares).all() and np.isfinite(windows).all()):
            return {}
        found = {}
        for (name, percent), half in zip(
            _ITL_PERCENTILES.items(), 100 * half_width(shares, windows), strict=True
        ):
            ends = (max(0.0, percent - half), min(100.0, percent + half))
            low, high = weighted_percentiles(self.trace.gap_s, self._weight(self.trace), ends)
            found[name] = (low, high)
        return found

    def _share_below(self, outcomes: Outcomes) -> FloatArray:
        """(3,) share of the gaps in `outcomes` at or below the trace's percentiles."""
        weight = self._weight(outcomes)
        total = weight.sum()
        limits = [getattr(self.metrics, name) for name in _ITL_PERCENTILES]
        if not total:
            return np.full(len(limits), np.nan)
        return np.array([weight[outcomes.gap_s <= limit].sum() / total for limit in limits])

    def _weight(self, outcomes: Outcomes) -> IntArray:
        weight: IntArray = (
            outcomes.gap_weight.sum(axis=1)
            if self.column is None
            else outcomes.gap_weight[:, self.column]
        )
        return weight


def _parts(outcomes: Outcomes, metrics: Metrics, slo: Slo) -> list[_Part]:
    """All requests, then every class that `metrics` has figures of its own for."""
    return [
        _Part("", None, outcomes, metrics),
        *(
            _Part(name, column, outcomes, metrics.classes[name])
            for column, name in enumerate(slo.class_names)
            if name in metrics.classes
        ),
    ]


def _interval(name: str, values: FloatArray) -> tuple[float, float]:
    """Ends of one figure's interval, which do not leave the figure's range; values (1 + B, 1)."""
    if name in _TIMES and (values > 0).all():
        logs = np.log(values)
        half = float(half_width(logs[0], logs[1:])[0])
        return math.exp(logs[0, 0] - half), math.exp(logs[0, 0] + half)
    value, half = float(values[0, 0]), float(half_width(values[0], values[1:])[0])
    most = 1.0 if name == "slo_attainment" else math.inf
    return max(0.0, value - half), min(most, value + half)


def _chance(every: Sequence[Metrics]) -> dict[str, float]:
    """ "class.limit" and `ALL` -> share of the windows that meet it; none without limits.

    A window without requests of a class breaks none of its limits.
    """
    met = {name: [m.violations.get(name, 0.0) <= 0 for m in every] for name in every[0].violations}
    if met:
        met[ALL] = [m.meets_slo for m in every]
    return {name: sum(of_windows) / len(every) for name, of_windows in met.items()}
