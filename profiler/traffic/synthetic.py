"""Seeded generators of traffic: arrivals by a renewal process, lengths by quantile tables.

Arrivals are drawn with unit mean gap and then mapped through the inverse of the cumulative rate
(time rescaling: Brown et al., Neural Computation 14(2), 2002), so that any burstiness goes with any
rate over time. Prompt and output lengths are tied by a Gaussian copula. Prefixes are shared as
`profiler.traffic.prefixes` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from scipy.special import ndtr

from profiler.errors import TraceError
from profiler.traffic.checks import MAX_TOKENS, FloatArray, IntArray
from profiler.traffic.prefixes import Sharing, draw_prefixes
from profiler.traffic.published import Figures, load_figures
from profiler.traffic.trace import Trace, TraceOptions

Arrivals = Literal["poisson", "gamma", "diurnal"]

_DAY_BINS = 288
MAX_REQUESTS = 50_000_000


@dataclass(frozen=True)
class QuantileTable:
    """A distribution of lengths: linear between (probability, tokens) points."""

    probabilities: tuple[float, ...]
    """(K,) rising from 0 to 1."""
    tokens: tuple[float, ...]
    """(K,) never falling, at least 1."""

    def __post_init__(self) -> None:
        steps = np.diff(self.probabilities)
        ends = (*self.probabilities[:1], *self.probabilities[-1:])
        if (
            len(self.tokens) != len(self.probabilities)
            or ends != (0.0, 1.0)
            or not (steps > 0).all()
        ):
            raise TraceError(
                "a quantile table needs probabilities rising from 0 to 1, each with a length; "
                f"got {list(self.probabilities)}"
            )
        tokens = np.array(self.tokens)
        legal = (tokens >= 1) & (tokens <= MAX_TOKENS)
        if not legal.all() or (np.diff(tokens) < 0).any():
            raise TraceError(
                "lengths of a quantile table must be at least 1 token and never fall; "
                f"got {list(self.tokens)}"
            )

    @classmethod
    def parse(cls, text: str) -> QuantileTable:
        """Read `0=16,0.5=400,0.99=3000,1=8000`; one number alone is a fixed length."""
        try:
            if "=" not in text:
                return cls((0.0, 1.0), (float(text), float(text)))
            points = [part.split("=") for part in text.split(",")]
            pairs = [(float(p), float(tokens)) for p, tokens in points]
        except ValueError:
            raise TraceError(
                f"a quantile table is PROBABILITY=TOKENS,... such as 0=16,0.5=400,1=8000; "
                f"got {text!r}"
            ) from None
        return cls(tuple(p for p, _ in pairs), tuple(t for _, t in pairs))

    def at(self, probability: FloatArray) -> IntArray:
        """(N,) whole lengths at (N,) probabilities."""
        tokens = np.interp(probability, self.probabilities, self.tokens)
        return np.rint(tokens).astype(np.int64)


@dataclass(frozen=True)
class SynthSpec:
    """What `synthesize` makes."""

    duration_s: float
    rate_rps: float
    """mean rate over the duration."""
    prompt: QuantileTable
    output: QuantileTable
    arrivals: Arrivals = "poisson"
    seed: int = 0
    gap_cv: float = 2.0
    """gamma: standard deviation over mean of the gaps; above 1 is burstier than Poisson."""
    period_s: float = 86_400.0
    """diurnal: one cycle; it starts at its lowest rate."""
    peak_to_mean: float = 1.6
    """diurnal: highest rate over mean rate, from 1 to 2."""
    rank_correlation: float = 0.0
    """Spearman's, of prompt and output length."""
    shape: tuple[float, ...] | None = None
    """relative rates in bins of `shape_bin_s`, repeated as needed; replaces the arrivals' own."""
    shape_bin_s: float = 60.0
    sharing: Sharing | None = None
    """how prompts share prefixes; None for prompts that have nothing in common"""
    name: str = "synthetic"

    def __post_init__(self) -> None:
        rules = (
            (self.arrivals in get_args(Arrivals), "arrivals", "one of poisson, gamma, diurnal"),
            (0 < self.duration_s < np.inf, "duration_s", "above 0 s"),
            (0 < self.rate_rps < np.inf, "rate_rps", "above 0 requests/s"),
            (0 < self.gap_cv < np.inf, "gap_cv", "above 0"),
            (0 < self.period_s < np.inf, "period_s", "above 0 s"),
            (1 <= self.peak_to_mean <= 2, "peak_to_mean", "from 1 to 2"),
            (-1 <= self.rank_correlation <= 1, "rank_correlation", "from -1 to 1"),
            (0 < self.shape_bin_s < np.inf, "shape_bin_s", "above 0 s"),
            (self.seed >= 0, "seed", "0 or above"),
        )
        for good, name, rule in rules:
            if not good:
                raise TraceError(f"{name} must be {rule}, got {getattr(self, name)}")
        if self.shape is not None and not (min(self.shape, default=-1) >= 0 < max(self.shape)):
            raise TraceError(f"a rate shape needs rates of 0 or above, got {list(self.shape)}")
        if self.rate_rps * self.duration_s > MAX_REQUESTS:
            raise TraceError(
                f"{self.rate_rps:g} requests/s for {self.duration_s:g} s is more than "
                f"{MAX_REQUESTS} requests; lower one of them"
            )


def synthesize(spec: SynthSpec) -> Trace:
    """Draw a trace; the same spec gives the same bytes.

    Raises
    ------
    TraceError
        No request falls into the duration.
    """
    rng = np.random.default_rng(spec.seed)
    arrival = _arrivals(spec, rng)
    if arrival.size == 0:
        raise TraceError(
            f"no request falls into {spec.duration_s:g} s at {spec.rate_rps:g} requests/s; "
            "raise the rate or the duration"
        )
    # A Gaussian copula with this correlation has the wanted rank correlation (Pearson, 1907).
    rho = 2.0 * np.sin(np.pi / 6.0 * spec.rank_correlation)
    first, other = rng.standard_normal((2, arrival.size))
    second = rho * first + np.sqrt(1.0 - rho**2) * other
    arrival -= arrival[0]
    prompt = spec.prompt.at(ndtr(first))
    return Trace.build(
        arrival,
        prompt,
        spec.output.at(ndtr(second)),
        **_options(spec, arrival, prompt, ndtr(first)),
    )


def _options(
    spec: SynthSpec, arrival_s: FloatArray, prompt: IntArray, rank: FloatArray
) -> TraceOptions:
    source = f"{spec.name} ({spec.arrivals}, seed {spec.seed})"
    if spec.sharing is None:
        return {"source": source}
    rng = np.random.default_rng((spec.seed, 1))  # of its own: lengths and times stay as they are
    hashes, offsets = draw_prefixes(spec.sharing, arrival_s, prompt, rank, rng)
    return {
        "source": source,
        "prefix_hashes": hashes,
        "prefix_offsets": offsets,
        "prefix_block_tokens": spec.sharing.block_tokens,
    }


def like(
    name: str = "azure-conv-2023",
    *,
    duration_s: float | None = None,
    rate_rps: float | None = None,
    seed: int = 0,
) -> Trace:
    """A trace with the published statistics of a recorded one.

    Parameters
    ----------
    name
        Figures shipped in `profiler/traffic/published`.
    duration_s
        None for the recorded duration; a longer one repeats the recorded rate over time.
    rate_rps
        Mean rate; None for the recorded rate over the same stretch.
    """
    return synthesize(spec_like(load_figures(name), duration_s, rate_rps, seed))


def mixed(parts: Mapping[str, Trace]) -> Trace:
    """Traffic of several classes on one replica: every request of `parts`, at its own time.

    Parameters
    ----------
    parts
        Class name -> its requests. Shared prefixes and images are not kept.
    """
    arrival = np.concatenate([part.arrival_s for part in parts.values()])
    order = np.argsort(arrival, kind="stable")
    sizes = [part.num_requests for part in parts.values()]
    return Trace.build(
        arrival[order],
        np.concatenate([part.prompt_tokens for part in parts.values()])[order],
        np.concatenate([part.output_tokens for part in parts.values()])[order],
        request_class=np.repeat(np.arange(len(parts)), sizes)[order],
        class_names=tuple(parts),
        source=" beside ".join(f"{name}: {part.source}" for name, part in parts.items()),
    )


def spec_like(
    figures: Figures, duration_s: float | None, rate_rps: float | None, seed: int
) -> SynthSpec:
    """The spec behind `like`, for callers that change part of it."""
    spec = SynthSpec(
        duration_s=figures.duration_s if duration_s is None else duration_s,
        rate_rps=1.0 if rate_rps is None else rate_rps,
        prompt=QuantileTable(figures.probabilities, figures.prompt_tokens),
        output=QuantileTable(figures.probabilities, figures.output_tokens),
        arrivals="gamma",
        seed=seed,
        gap_cv=figures.gap_cv,
        rank_correlation=figures.rank_correlation,
        shape=figures.rate_rps,
        shape_bin_s=figures.rate_bin_s,
        sharing=figures.sharing,
        name=f"like {figures.name}",
    )
    if rate_rps is not None:
        return spec
    edges, rates = _rate_steps(spec)
    return replace(spec, rate_rps=float((np.diff(edges) * rates).sum() / spec.duration_s))


def _arrivals(spec: SynthSpec, rng: np.random.Generator) -> FloatArray:
    edges, rates = _rate_steps(spec)
    expected = np.concatenate(([0.0], np.cumsum(np.diff(edges) * rates)))
    if expected[-1] <= 0:
        return np.zeros(0)
    expected *= spec.rate_rps * spec.duration_s / expected[-1]
    return np.asarray(np.interp(_unit_process(spec, rng, expected[-1]), expected, edges))


def _unit_process(spec: SynthSpec, rng: np.random.Generator, until: float) -> FloatArray:
    """Event times from 0 to `until` of a renewal process with mean gap 1."""
    shape = 1.0 / spec.gap_cv**2 if spec.arrivals == "gamma" else 1.0
    chunks: list[FloatArray] = []
    reached = 0.0
    while reached < until:
        gaps = rng.gamma(shape, 1.0 / shape, size=int(1.1 * (until - reached)) + 16)
        chunks.append(reached + np.cumsum(gaps))
        reached = float(chunks[-1][-1])
    events = np.concatenate(chunks)
    return events[events < until]


def _rate_steps(spec: SynthSpec) -> tuple[FloatArray, FloatArray]:
    """(B + 1,) edges from 0 to the duration, and (B,) relative rates between them."""
    if spec.shape is not None:
        shape, bin_s = np.array(spec.shape), spec.shape_bin_s
    elif spec.arrivals == "diurnal":
        phase = 2.0 * np.pi * (np.arange(_DAY_BINS) + 0.5) / _DAY_BINS
        shape = 1.0 - (spec.peak_to_mean - 1.0) * np.cos(phase)
        bin_s = spec.period_s / _DAY_BINS
    else:
        return np.array([0.0, spec.duration_s]), np.ones(1)
    num = int(np.ceil(spec.duration_s / bin_s))
    edges = np.minimum(np.arange(num + 1) * bin_s, spec.duration_s)
    return edges, shape[np.arange(num) % len(shape)]
