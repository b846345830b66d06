"""Outcomes -> percentiles, SLO attainment and goodput; the same for simulated and measured ones.

Definitions
-----------
TTFT
    First token minus *intended* arrival, over the requests that got a first token. Client-side
    waiting is never left out (open loop; Schroeder et al., "Open versus closed", NSDI 2006).
ITL
    Every gap between consecutive tokens, pooled over all requests and weighted by how many
    requests had it; never a per-request average, which hides stalls.
TPOT
    (finish - first token) / (output tokens - 1), one number per request with two tokens or more.
Goodput
    Requests per second that meet every SLO of their class (DistServe, Zhong et al., OSDI 2024):
    TTFT within its limit, TPOT within its limit if one is given, and at most 1 % of the request's
    own gaps above the ITL limit. Rejected, failed and unfinished requests are misses.
Rates
    Divide by the time from the first arrival to the last finish.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from profiler.outcomes import Outcomes, Status
from tuner.percentiles import finite_mean, percentile, weighted_percentiles
from tuner.slo import Limits, Slo

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

SLOW_GAP_SHARE = 0.01
"""share of a request's gaps that may exceed the ITL limit: the limit is one on the p99"""
UNSERVED_SHARE = 0.01
"""share of requests that may get no answer before a p99 over the others means nothing"""


@dataclass(frozen=True)
class Metrics:
    """Figures of one run, or of one class of it. Times in seconds, rates per second."""

    num_requests: int
    num_finished: int
    num_rejected: int
    num_failed: int
    num_unfinished: int
    duration_s: float
    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    itl_mean_s: float
    itl_p50_s: float
    itl_p90_s: float
    itl_p99_s: float
    itl_max_s: float
    tpot_mean_s: float
    tpot_p50_s: float
    tpot_p99_s: float
    goodput_rps: float
    slo_attainment: float
    throughput_rps: float
    output_tokens_per_s: float
    violations: dict[str, float] = field(default_factory=dict)
    """"class.limit" -> (figure - limit) / limit: positive when violated"""
    classes: dict[str, Metrics] = field(default_factory=dict)
    """figures of each class; empty when there is one class only"""
    num_windows: int = 1
    """arrival windows scored, the traffic itself included (see `tuner.intervals`)"""
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    """figure -> low and high end of its 90 % interval; empty with one window"""
    chance: dict[str, float] = field(default_factory=dict)
    """"class.limit" and "all" -> share of the windows that meet it; empty with one window"""

    @property
    def worst_violation(self) -> float:
        """The largest relative violation, negative when every SLO is met with room to spare."""
        return max(self.violations.values(), default=0.0)

    @property
    def meets_slo(self) -> bool:
        """Every SLO is met (also true when there is none)."""
        return self.worst_violation <= 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; figures that do not exist become None."""
        plain: dict[str, Any] = without_nan(asdict(self))
        plain["meets_slo"] = self.meets_slo
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Metrics:
        """What `to_dict` wrote."""
        known = {f.name: plain[f.name] for f in fields(cls)}
        classes = {name: cls.from_dict(c) for name, c in known.pop("classes").items()}
        violations = {k: or_inf(v) for k, v in known.pop("violations").items()}
        intervals = {k: tuple(v) for k, v in known.pop("intervals").items()}
        chance = known.pop("chance")
        numbers: dict[str, Any] = {k: math.nan if v is None else v for k, v in known.items()}
        return cls(
            **numbers, violations=violations, classes=classes, intervals=intervals, chance=chance
        )


def or_inf(value: float | None) -> float:
    """A violation as `without_nan` keeps it: None is infinite."""
    return math.inf if value is None else value


def without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_nan(v) for k, v in value.items()}
    if isinstance(value, tuple):
        return [without_nan(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def _with_failed(values: FloatArray, status: IntArray) -> FloatArray:
    """The values there are; failed requests, whose answer never came, count as infinite."""
    found = np.where(status == Status.FAILED, np.inf, values)
    return np.asarray(found[~np.isnan(found)], dtype=np.float64)


def ttfts(outcomes: Outcomes, rows: BoolArray) -> FloatArray:
    """TTFT of the requests of `rows` that have one, seconds; infinite for failed ones."""
    ttft = outcomes.first_token_s - outcomes.arrival_s
    return _with_failed(ttft[rows], outcomes.status[rows])


def _tpot(outcomes: Outcomes) -> FloatArray:
    """(N,) seconds; NaN where a request has fewer than two tokens or did not finish."""
    tpot = np.full(outcomes.num_requests, np.nan)
    several = outcomes.output_tokens > 1
    span = outcomes.finish_s[several] - outcomes.first_token_s[several]
    tpot[several] = span / (outcomes.output_tokens[several] - 1)
    return tpot


def good_requests(outcomes: Outcomes, slo: Slo) -> BoolArray:
    """(N,) True for each request that meets every SLO of its class. NaN limits always hold."""
    of_class = outcomes.request_class
    ttft_limit = np.array([x.ttft_p99_s for x in slo.limits])[of_class]
    tpot_limit = np.array([x.tpot_p99_s for x in slo.limits])[of_class]
    ttft = outcomes.first_token_s - outcomes.arrival_s
    num_gaps = np.maximum(outcomes.output_tokens - 1, 0)
    late = (ttft > ttft_limit) | (_tpot(outcomes) > tpot_limit)
    stalled = outcomes.num_slow_gaps > SLOW_GAP_SHARE * num_gaps
    good: BoolArray = (outcomes.status == Status.FINISHED) & ~late & ~stalled
    return good


def _span(outcomes: Outcomes) -> float:
    """Seconds from the first arrival to the last finish; 0 when nothing finished."""
    finished = outcomes.finish_s[np.isfinite(outcomes.finish_s)]
    if finished.size == 0:
        return 0.0
    return float(finished.max() - outcomes.arrival_s.min())


def _figures(outcomes: Outcomes, good: BoolArray, rows: BoolArray, weight: IntArray) -> Metrics:
    """Figures over the requests of `rows` and the gaps weighted by `weight`."""
    status = outcomes.status[rows]
    ttft = ttfts(outcomes, rows)
    tpot = _with_failed(_tpot(outcomes)[rows], status)
    gaps, total = outcomes.gap_s, int(weight.sum())
    itl_p50_s, itl_p90_s, itl_p99_s, itl_max_s = weighted_percentiles(
        gaps, weight, (50, 90, 99, 100)
    )
    duration, num = _span(outcomes), int(rows.sum())
    num_good, num_finished = int(good[rows].sum()), int((status == Status.FINISHED).sum())
    tokens = int(outcomes.output_tokens[rows].sum())

    def rate(count: int) -> float:
        return count / duration if duration > 0 else 0.0

    return Metrics(
        num_requests=num,
        num_finished=num_finished,
        num_rejected=int((status == Status.REJECTED).sum()),
        num_failed=int((status == Status.FAILED).sum()),
        num_unfinished=int((status == Status.UNFINISHED).sum()),
        duration_s=duration,
        ttft_mean_s=finite_mean(ttft),
        ttft_p50_s=percentile(ttft, 50),
        ttft_p90_s=percentile(ttft, 90),
        ttft_p99_s=percentile(ttft, 99),
        itl_mean_s=float(gaps @ weight / total) if total else math.nan,
        itl_p50_s=itl_p50_s,
        itl_p90_s=itl_p90_s,
        itl_p99_s=itl_p99_s,
        itl_max_s=itl_max_s,
        tpot_mean_s=finite_mean(tpot),
        tpot_p50_s=percentile(tpot, 50),
        tpot_p99_s=percentile(tpot, 99),
        goodput_rps=rate(num_good),
        slo_attainment=num_good / num if num else math.nan,
        throughput_rps=rate(num_finished),
        output_tokens_per_s=rate(tokens),
    )


def _violations(name: str, metrics: Metrics, limits: Limits) -> dict[str, float]:
    """Relative violation of each limit of one class; no figure at all counts as infinite."""
    found = {}
    for key, limit in asdict(limits).items():
        if not math.isnan(limit):
            value = getattr(metrics, key)
            missing = 0.0 if key != "ttft_p99_s" else math.inf
            found[f"{name}.{key}"] = missing if math.isnan(value) else (value - limit) / limit
    served = metrics.num_finished
    if metrics.num_requests:
        unserved = 1 - served / metrics.num_requests
        found[f"{name}.unserved"] = (unserved - UNSERVED_SHARE) / UNSERVED_SHARE
    return found


def compute(outcomes: Outcomes, slo: Slo) -> Metrics:
    """All figures of a run, overall and per class, and how far each SLO is missed.

    Failed requests count in percentiles of TTFT and TPOT as ones that take for ever, and not in
    means. A class without requests has no figures and no violations. Besides the limits, at most
    1 % of the requests of a class may go unserved ("class.unserved"), because percentiles over the
    served ones alone would reward rejecting the others.
    """
    good = good_requests(outcomes, slo)
    everything = np.ones(outcomes.num_requests, dtype=np.bool_)
    overall = _figures(outcomes, good, everything, outcomes.gap_weight.sum(axis=1))
    classes: dict[str, Metrics] = {}
    violations: dict[str, float] = {}
    for index, (name, limits) in enumerate(zip(slo.class_names, slo.limits, strict=True)):
        rows = outcomes.request_class == index
        if rows.any():
            figures = (
                overall
                if rows.all()
                else _figures(outcomes, good, rows, outcomes.gap_weight[:, index])
            )
            own = _violations(name, figures, limits)
            classes[name] = replace(figures, violations=own)
            violations |= own
    return replace(overall, violations=violations, classes=classes if len(classes) > 1 else {})


def pool(rounds: Sequence[Outcomes]) -> Outcomes:
    """One table of several runs, each shifted to begin where the one before ended.

    Percentiles are then over all requests and gaps, and rates over the summed durations. The
    class limits must be the same in all runs.
    """
    parts, end = [], 0.0
    for outcomes in rounds:
        shift = end - float(outcomes.arrival_s.min())
        moved = {
            name: getattr(outcomes, name) + shift
            for name in ("arrival_s", "first_token_s", "finish_s")
        }
        parts.append(replace(outcomes, **moved))
        end += _span(outcomes)
    joined = {
        f.name: np.concatenate([getattr(p, f.name) for p in parts])
        for f in fields(Outcomes)
        if f.name != "itl_limit_s"
    }
    return Outcomes(**joined, itl_limit_s=rounds[0].itl_limit_s)
