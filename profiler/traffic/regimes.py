"""Regimes: stretches of a trace with much the same arrival rate and lengths.

Change points by penalised least squares on binned traffic. Per bin there are three signals: the
number of arrivals (as 2 sqrt(n + 3/8), whose variance is 1 for Poisson arrivals; Anscombe,
Biometrika 35, 1948) and the means of the logarithms of prompt and output lengths, weighted by the
bin's requests. Each is divided by its own noise, estimated from the differences of neighbouring
bins (median absolute difference), which a few changes leave alone, and is never taken for
smaller than the noise of independent requests. The segmentation minimises the squared distances
from the segments' means plus `PENALTY` ln(bins) per change, found exactly by dynamic programming
over all of them (Jackson et al., "An algorithm for optimal partitioning of data on an interval",
IEEE SPL 12, 2005). A change of three means and a place costs 4 ln(bins) by the Bayesian criterion
(Yao, Statistics & Probability Letters 6, 1988); `PENALTY` is larger, because real arrivals hang
together over more than a bin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiler.traffic.trace import FloatArray, IntArray, Trace

PENALTY = 8.0
"""times ln(bins), per change"""
REQUESTS_PER_BIN = 40
MAX_BINS = 240
MIN_BINS = 20
"""traffic with fewer is too short to be split"""
MIN_SHARE = 1 / 20
"""shortest regime, of the whole"""
MAX_REGIMES = 8
_SMALLEST_SPREAD = 0.05
"""of the logarithm of lengths between requests"""
_MAD = 1.4826
"""standard deviation of a normal distribution over its median absolute deviation"""


@dataclass(frozen=True)
class Regime:
    """One stretch."""

    start_s: float
    end_s: float
    """the next one's start; of the last one, its last arrival"""
    first: int
    """index of its first request"""
    num_requests: int
    rate_rps: float
    mean_prompt_tokens: float
    """0 without requests, as the next"""
    mean_output_tokens: float

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s

    def take(self, trace: Trace) -> Trace:
        """Its requests of `trace`, the first at 0 s; it must have some."""
        return trace.take(np.arange(self.first, self.first + self.num_requests))


def find_regimes(trace: Trace, most: int = MAX_REGIMES) -> list[Regime]:
    """The regimes of `trace` in order; one where nothing changes or the traffic is too short.

    More than `most` are merged by doubling the penalty until there are not more.
    """
    num_bins = min(MAX_BINS, trace.num_requests // REQUESTS_PER_BIN)
    if num_bins < MIN_BINS or not trace.duration_s > 0:
        return [_regime(trace, 0, trace.num_requests, (0.0, trace.duration_s))]
    edges = np.linspace(0.0, trace.duration_s, num_bins + 1)
    values, weights = signals(trace, edges)
    shortest = max(1, round(MIN_SHARE * num_bins))
    penalty = PENALTY * np.log(num_bins)
    while len(starts := segment(values, weights, penalty, shortest)) > most:
        penalty *= 2
    times = [*edges[starts], trace.duration_s]
    firsts = [*np.searchsorted(trace.arrival_s, edges[starts]), trace.num_requests]
    return [
        _regime(trace, int(firsts[i]), int(firsts[i + 1]), (float(times[i]), float(times[i + 1])))
        for i in range(len(starts))
    ]


def _regime(trace: Trace, first: int, end: int, span: tuple[float, float]) -> Regime:
    mine = slice(first, end)
    num, duration = end - first, span[1] - span[0]
    return Regime(
        start_s=span[0],
        end_s=span[1],
        first=first,
        num_requests=num,
        rate_rps=num / duration if duration > 0 else float("inf"),
        mean_prompt_tokens=float(trace.prompt_tokens[mine].mean()) if num else 0.0,
        mean_output_tokens=float(trace.output_tokens[mine].mean()) if num else 0.0,
    )


def signals(trace: Trace, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What is segmented: values in units of their noise, and their weights.

    Parameters
    ----------
    edges
        (B + 1,) seconds.

    Returns
    -------
    values, weights
        (3, B) each; weights are 1 for the rate, requests of the bin for the lengths.
    """
    num_bins = len(edges) - 1
    bin_of = np.clip(np.searchsorted(edges, trace.arrival_s, side="right") - 1, 0, num_bins - 1)
    counts = np.bincount(bin_of, minlength=num_bins)
    root = 2.0 * np.sqrt(counts + 0.375)
    rows = [root / max(1.0, _noise(root, np.ones(num_bins)))]
    weights = [np.ones(num_bins)]
    for tokens in (trace.prompt_tokens, trace.output_tokens):
        rows.append(_length_signal(np.log(tokens), bin_of, counts))
        weights.append(counts.astype(np.float64))
    return np.array(rows), np.array(weights)


def _length_signal(logs: FloatArray, bin_of: IntArray, counts: IntArray) -> FloatArray:
    """(B,) mean of the bin's logarithms over the noise of one request; 0 in empty bins."""
    filled = np.maximum(counts, 1)
    means = np.bincount(bin_of, weights=logs, minlength=counts.size) / filled
    within = np.bincount(bin_of, weights=(logs - means[bin_of]) ** 2, minlength=counts.size)
    spread = float(np.sqrt(within.sum() / logs.size))
    noise = _noise(means[counts > 0], counts[counts > 0].astype(np.float64))
    signal: FloatArray = means / max(_SMALLEST_SPREAD, spread, noise)
    return signal


def _noise(values: FloatArray, weights: FloatArray) -> float:
    """Standard deviation at weight 1, from differences of neighbours."""
    if values.size < 2:
        return 0.0
    steps = np.abs(np.diff(values)) / np.sqrt(1 / weights[1:] + 1 / weights[:-1])
    return _MAD * float(np.median(steps))


def segment(
    values: FloatArray, weights: FloatArray, penalty: float, shortest: int = 1
) -> list[int]:
    """First bins of the segments that minimise squared distances + `penalty` per change.

    Parameters
    ----------
    values, weights
        (S, B) signals.
    shortest
        Least bins of a segment.
    """
    num_bins = values.shape[1]
    sums = [np.cumsum(np.pad(a, ((0, 0), (1, 0))), axis=1) for a in _moments(values, weights)]
    best = np.full(num_bins + 1, np.inf)
    best[0] = -penalty
    last = np.zeros(num_bins + 1, dtype=np.int64)
    for end in range(shortest, num_bins + 1):
        begin = np.arange(end - shortest + 1)
        w, wx, wxx = (a[:, end, None] - a[:, begin] for a in sums)
        cost = (wxx - wx**2 / np.maximum(w, 1e-12)).sum(axis=0)
        total = best[begin] + cost + penalty
        last[end] = int(np.argmin(total))
        best[end] = total[last[end]]
    starts = [int(last[num_bins])]
    while starts[-1] > 0:
        starts.append(int(last[starts[-1]]))
    return starts[::-1]


def _moments(values: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    return weights, weights * values, weights * values**2
