"""Does the engine still take the time that the latency model says?

The deployed configuration is simulated on the new traffic, and on windows resampled from it
(`tuner.windows`), which say how far chance alone moves a figure. Against that stand the engine's
own histograms of TTFT, ITL and end-to-end latency, in two comparisons each:

mean
    A histogram knows its sum and its count, so its mean is exact however coarse its buckets are.
    Effect: the larger mean over the smaller one, minus 1.
distribution
    Shares at or below each bucket bound; nothing is read into a bucket. An engine whose times are
    all wrong by less than the tolerance t has a share at bound b between those predicted at
    b / (1 + t) and b (1 + t). Effect: the largest distance from that band, over all bounds. Without
    the band a bound that most steps barely keep would make a drift of any small error.

The latency model was off by something on the day of the confirmation already; that much is added
to the tolerance and to the least effect of the means.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from profiler.errors import InputError
from profiler.outcomes import Outcomes
from profiler.traffic.checks import FloatArray
from tuner.drift.finding import ALL, Finding, holm, p_values
from tuner.drift.scrape import Histogram, Scrape

TTFT, ITL, E2E = "TTFT", "ITL", "end-to-end latency"
METRICS = {
    TTFT: "vllm:time_to_first_token_seconds",
    ITL: "vllm:inter_token_latency_seconds",
    E2E: "vllm:e2e_request_latency_seconds",
}
NUM_WINDOWS = 150
"""the traffic itself included; enough for the smallest p that six comparisons ask for"""
TOLERANCE = 0.2
"""relative error of times that is no drift, besides what the model was off by when confirmed"""
LEAST_SHARE = 0.05
"""share of observations outside the band that is a drift"""
LEAST_COUNT = 200
"""observations that a histogram needs"""


@dataclass(frozen=True)
class Times:
    """Latencies of one kind with how often each occurred, ascending."""

    values: FloatArray
    """(V,) seconds"""
    at_most: FloatArray
    """(V,) share at or below each"""
    mean: float

    @classmethod
    def of(cls, values: FloatArray, weight: FloatArray) -> Times:
        """From (V,) seconds in any order and (V,) weights; those without a time do not count."""
        keep = np.isfinite(values) & (weight > 0)
        values, weight = values[keep], weight[keep]
        order = np.argsort(values, kind="stable")
        total = weight.sum()
        if not total:
            return cls(np.empty(0), np.empty(0), math.nan)
        shares = np.cumsum(weight[order]) / total
        return cls(values[order], shares, float(values @ weight / total))

    def shares(self, bounds: FloatArray) -> FloatArray:
        """(B,) share at or below each of `bounds`."""
        return np.concatenate([[0.0], self.at_most])[
            np.searchsorted(self.values, bounds, side="right")
        ]


def times_of(outcomes: Outcomes) -> dict[str, Times]:
    """TTFT, ITL and end-to-end latency of every request."""
    once = np.ones(outcomes.num_requests)
    return {
        TTFT: Times.of(outcomes.first_token_s - outcomes.arrival_s, once),
        ITL: Times.of(outcomes.gap_s, outcomes.gap_weight.sum(axis=1).astype(np.float64)),
        E2E: Times.of(outcomes.finish_s - outcomes.arrival_s, once),
    }


@dataclass(frozen=True)
class EngineDrift:
    """What the engine's histograms say, and what they could not."""

    findings: list[Finding] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    """what the engine runs with and the study did not, in words; each is a drift"""
    not_judged: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "findings": [f.to_dict() for f in self.findings],
            "settings": self.settings,
            "not_judged": self.not_judged,
        }


def compare_engine(
    seen: Scrape,
    predicted: Outcomes,
    windows: Iterable[Outcomes],
    known_error: Mapping[str, float],
) -> EngineDrift:
    """How the engine's latencies differ from those predicted for the traffic it served.

    Parameters
    ----------
    seen
        The engine's metrics over the time of the traffic.
    predicted
        Simulation of what it serves.
    windows
        Simulations of windows of that traffic, with the same settings; read once.
    known_error
        By kind (`TTFT`, ...), relative error of the predicted mean when it was confirmed.

    Raises
    ------
    InputError
        There is no histogram that could be compared.
    """
    own, findable, not_judged = times_of(predicted), {}, []
    for kind, metric in METRICS.items():
        histogram = seen.histograms.get(metric)
        if histogram is None or histogram.count < LEAST_COUNT or histogram.bounds.size < 2:
            count = 0 if histogram is None else int(histogram.count)
            not_judged.append(f"{kind}: {metric} has {count} observations")
        elif math.isnan(own[kind].mean):
            not_judged.append(f"{kind}: the simulation has none")
        else:
            spread = TOLERANCE + known_error.get(kind, 0.0)
            findable[kind] = _Comparison(kind, histogram, own[kind], spread)
    if not findable:
        raise InputError(
            f"the metrics hold none of vLLM's latency histograms with {LEAST_COUNT} observations "
            f"({'; '.join(not_judged)}); scrape a vLLM server that has served this traffic"
        )
    by_chance = [
        [c.effects_of(times[kind]) for kind, c in findable.items()]
        for times in map(times_of, windows)
    ]
    effects = np.array([c.effects for c in findable.values()]).ravel()
    chance = p_values(effects, np.array(by_chance).reshape(len(by_chance), -1))
    found = [
        finding
        for c, p in zip(findable.values(), chance.reshape(-1, 2), strict=True)
        for finding in c.findings(p)
    ]
    return EngineDrift(holm(found), [], not_judged)


@dataclass(frozen=True)
class _Comparison:
    """One kind of latency: the engine's histogram against the predicted times."""

    kind: str
    seen: Histogram
    own: Times
    spread: float
    """relative error of times that is no drift"""

    @property
    def effects(self) -> tuple[float, float]:
        """Of the mean, and of the distribution."""
        return _apart(self.seen.mean, self.own.mean), self._outside(self.seen.shares)

    def effects_of(self, times: Times) -> tuple[float, float]:
        """The same, had the engine taken `times`."""
        shares = times.shares(self.seen.bounds[:-1])
        return _apart(times.mean, self.own.mean), self._outside(shares)

    def _outside(self, shares: FloatArray) -> float:
        """Largest distance of (B - 1,) shares at the finite bounds from the band."""
        bounds = self.seen.bounds[:-1]
        low = self.own.shares(bounds / (1 + self.spread))
        high = self.own.shares(bounds * (1 + self.spread))
        return float(np.maximum(low - shares, shares - high).max(initial=0.0))

    def findings(self, p: FloatArray) -> list[Finding]:
        """Both comparisons; p (2,)."""
        mean, outside = self.effects
        bounds = self.seen.bounds[:-1]
        worst = int(np.argmax(np.abs(self.seen.shares - self.own.shares(bounds))))
        return [
            Finding(
                quantity=f"mean {self.kind}",
                of=ALL,
                before=self.own.mean,
                after=self.seen.mean,
                unit="s",
                effect=mean,
                least_effect=self.spread,
                p=float(p[0]),
            ),
            Finding(
                quantity=f"{self.kind} at most {bounds[worst]:g} s",
                of=ALL,
                before=float(self.own.shares(bounds)[worst]),
                after=float(self.seen.shares[worst]),
                unit="of all",
                effect=outside,
                least_effect=LEAST_SHARE,
                p=float(p[1]),
            ),
        ]


def _apart(one: float, other: float) -> float:
    """The larger over the smaller, minus 1; infinite when one of them is 0."""
    low, high = sorted((one, other))
    if high <= 0:
        return 0.0
    return high / low - 1 if low > 0 else math.inf


def settings_drift(cache: Mapping[str, str], expected: Mapping[str, Any]) -> list[str]:
    """What vLLM's cache settings say otherwise than `expected`, in words.

    Parameters
    ----------
    cache
        Labels of `vllm:cache_config_info`.
    expected
        `num_gpu_blocks`, `block_size` and `enable_prefix_caching`, those that are known. The KV
        pool may differ by a tenth: free memory is never twice the same.
    """
    found = []
    blocks, wanted = cache.get("num_gpu_blocks", ""), expected.get("num_gpu_blocks")
    if wanted and blocks.isdigit() and _apart(float(blocks), float(wanted)) > _POOL:
        found.append(f"the engine has {blocks} KV blocks, the study counted on {wanted}")
    for name in ("block_size", "enable_prefix_caching"):
        if expected.get(name) is not None and cache.get(name, str(expected[name])) != str(
            expected[name]
        ):
            found.append(f"the engine runs with {name}={cache[name]}, not {expected[name]}")
    return found


_POOL = 0.1
