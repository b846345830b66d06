"""What traffic looks like: lengths, rate, burstiness, as small tables of numbers for figures."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from scipy.stats import chi2

from profiler.traffic.checks import BoolArray, FloatArray, IntArray
from profiler.traffic.doctor import diagnose, rate_over_time
from profiler.traffic.regimes import find_regimes
from profiler.traffic.trace import Trace, length_figures

SIDES = ("prompt", "output")
_PER_DOUBLING = 6
_MOST_POINTS = 400
_REQUESTS_PER_RATE_BIN = 20
_LEAST_WINDOWS = 20
"""counts that an index of dispersion needs"""
_WINDOWS_PER_DECADE = 5


def traffic_shape(trace: Trace) -> dict[str, Any]:
    """Plain data of a trace, for `dashboard.figures.traffic`.

    Keys: `diagnosis` (`profiler.traffic.doctor`), `regimes` (`profiler.traffic.regimes`), `lengths`
    (`length_rows`), `histograms` (side -> class -> `histogram`), `joint`, `rate` and `burstiness`
    (None where all requests arrive at once).
    """
    return {
        "diagnosis": diagnose(trace).to_dict(),
        "regimes": [asdict(r) | {"duration_s": r.duration_s} for r in find_regimes(trace)],
        "lengths": length_rows(trace),
        "histograms": {
            side: {name: histogram(tokens_of(trace, side)[rows]) for name, rows in classes(trace)}
            for side in SIDES
        },
        "joint": joint(trace),
        "rate": rate(trace),
        "burstiness": burstiness(trace),
    }


def tokens_of(trace: Trace, side: str) -> IntArray:
    """(N,) lengths of prompts or outputs."""
    return trace.prompt_tokens if side == "prompt" else trace.output_tokens


def classes(trace: Trace) -> list[tuple[str, BoolArray]]:
    """Name and (N,) mask of each class that has requests; `all requests` where there is one."""
    named = [(name, trace.classes == i) for i, name in enumerate(trace.class_names)]
    found = [(name, rows) for name, rows in named if rows.any()]
    if len(found) == 1:
        return [("all requests", found[0][1])]
    return found


def length_rows(trace: Trace) -> list[dict[str, Any]]:
    """Percentiles of lengths (`length_figures`), a row per side and class."""
    return [
        {"of": side, "class": name, "requests": int(rows.sum())}
        | length_figures(tokens_of(trace, side)[rows])
        for side in SIDES
        for name, rows in classes(trace)
    ]


def edges_of(tokens: IntArray) -> FloatArray:
    """(B + 1,) whole numbers in about equal ratios that hold every length."""
    low, high = float(tokens.min()), float(tokens.max()) + 1.0
    num = max(2, round(_PER_DOUBLING * np.log2(high / low)) + 1)
    edges: FloatArray = np.unique(np.round(np.geomspace(low, high, num)))
    return edges


def histogram(tokens: IntArray) -> dict[str, list[float]]:
    """`edges` (B + 1,) tokens and `density` (B,), % of the requests per doubling of length: bins
    of short lengths, which are whole numbers, are wider on a log axis than others."""
    edges = edges_of(tokens)
    counts, _ = np.histogram(tokens, edges)
    density = 100.0 * counts / len(tokens) / np.log2(edges[1:] / edges[:-1])
    return {"edges": edges.tolist(), "density": np.round(density, 4).tolist()}


def cumulative(tokens: IntArray) -> dict[str, list[float]]:
    """`tokens` ascending and `share`, % of the requests that are at most as long."""
    distinct, counts = np.unique(tokens, return_counts=True)
    share = 100.0 * np.cumsum(counts) / len(tokens)
    if distinct.size > _MOST_POINTS:
        kept = np.unique(np.searchsorted(share, np.linspace(share[0], 100.0, _MOST_POINTS)))
        kept = np.minimum(kept, distinct.size - 1)
        distinct, share = distinct[kept], share[kept]
    return {"tokens": distinct.tolist(), "share": np.round(share, 4).tolist()}


def joint(trace: Trace) -> dict[str, list[Any]]:
    """`prompt` (P + 1,) and `output` (O + 1,) edges, tokens; `counts` (O, P) requests."""
    prompt, output = (
        edges_of(tokens)[::2] for tokens in (trace.prompt_tokens, trace.output_tokens)
    )
    prompt = np.union1d(prompt, [trace.prompt_tokens.max() + 1.0])
    output = np.union1d(output, [trace.output_tokens.max() + 1.0])
    counts, _, _ = np.histogram2d(trace.output_tokens, trace.prompt_tokens, (output, prompt))
    return {
        "prompt": prompt.tolist(),
        "output": output.tolist(),
        "counts": counts.astype(np.int64).tolist(),
    }


def rate(trace: Trace, most_bins: int = 240) -> dict[str, Any]:
    """`bin_s` and `rate_rps` of each bin; no bins where all requests arrive at once."""
    num = int(np.clip(trace.num_requests // _REQUESTS_PER_RATE_BIN, 1, most_bins))
    bin_s, rates = rate_over_time(trace.arrival_s, num)
    return {"bin_s": bin_s, "rate_rps": np.round(rates, 5).tolist()}


def burstiness(trace: Trace) -> dict[str, list[float]] | None:
    """Index of dispersion of counts: variance over mean of the arrivals in windows of a length; 1
    for a Poisson process at every length (Cox & Lewis, The Statistical Analysis of Series of
    Events, 1966, ch. 4).

    Keys: `window_s`, `dispersion`, and `low` and `high`, where 90 % of Poisson processes lie: with
    n windows, (n - 1) times the index is close to chi-squared with n - 1 degrees of freedom.
    """
    if trace.duration_s <= 0 or trace.num_requests < 2 * _LEAST_WINDOWS:
        return None
    shortest, longest = trace.duration_s / trace.num_requests, trace.duration_s / _LEAST_WINDOWS
    num = max(2, round(_WINDOWS_PER_DECADE * np.log10(longest / shortest)))
    rows = []
    for window_s in np.geomspace(shortest, longest, num):
        windows = int(trace.duration_s / window_s * (1 + 1e-12))
        whole = trace.arrival_s[trace.arrival_s < windows * window_s]
        counts = np.bincount((whole / window_s).astype(np.int64), minlength=windows)[:windows]
        low, high = chi2.ppf([0.05, 0.95], windows - 1) / (windows - 1)
        rows.append((window_s, counts.var(ddof=1) / counts.mean(), low, high))
    columns = np.array(rows).T
    names = ("window_s", "dispersion", "low", "high")
    return {name: column.tolist() for name, column in zip(names, columns, strict=True)}
