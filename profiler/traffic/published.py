"""Published figures of recorded traffic: what a synthetic trace needs to resemble it.

A figures file holds statistics only (quantile tables, the rate over time), no requests.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.errors import TraceError
from profiler.traffic.checks import FloatArray
from profiler.traffic.doctor import time_grid_s
from profiler.traffic.prefixes import Sharing, measure_sharing
from profiler.traffic.trace import Trace

_FOLDER = files("profiler.traffic") / "published"

_PROBABILITIES = (*np.linspace(0.0, 0.995, 200), 0.997, 0.999, 0.9995, 1.0)
_SHARING_PROBABILITIES = tuple(float(p) for p in np.linspace(0.0, 1.0, 41))


@dataclass(frozen=True)
class Figures:
    """Statistics of one recorded trace."""

    name: str
    source: str
    """who published it, where it is described, and its licence."""
    num_requests: int
    duration_s: float
    rate_bin_s: float
    rate_rps: tuple[float, ...]
    """mean rate in bins of `rate_bin_s` from the start."""
    gap_cv: float
    """standard deviation over mean of arrival gaps, after the rate over time is taken out; 1 (as
    of a Poisson process) is assumed where the clock is coarser than the gaps."""
    rank_correlation: float
    """Spearman's, of prompt and output length."""
    probabilities: tuple[float, ...]
    """(K,) of the two quantile tables, from 0 to 1."""
    prompt_tokens: tuple[float, ...]
    output_tokens: tuple[float, ...]
    sharing: Sharing | None = None
    """None where the recording does not say which prompts begin alike"""

    def to_json(self) -> str:
        """The text of a figures file."""
        return json.dumps(asdict(self), indent=1) + "\n"


def published_names() -> list[str]:
    """Names that `load_figures` knows."""
    return sorted(p.name.removesuffix(".json") for p in _FOLDER.iterdir() if p.name[-5:] == ".json")


def load_figures(name: str) -> Figures:
    """Shipped figures by name; TraceError names those there are."""
    if name not in published_names():
        known = ", ".join(published_names())
        raise TraceError(f"no published figures called {name!r}; choose from {known}")
    fields: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    sharing = fields.pop("sharing", None)
    return Figures(
        **_tuples(fields), sharing=None if sharing is None else Sharing(**_tuples(sharing))
    )


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}


def measure_figures(trace: Trace, name: str, source: str) -> Figures:
    """Figures of a recorded trace, in bins of about one minute; how the shipped files are made."""
    bins = max(1, round(trace.duration_s / 60))
    counts, _ = np.histogram(trace.arrival_s, bins=bins, range=(0.0, trace.duration_s))
    bin_s = trace.duration_s / bins
    prompt, output = (
        np.quantile(tokens, _PROBABILITIES, method="inverted_cdf")
        for tokens in (trace.prompt_tokens, trace.output_tokens)
    )
    return Figures(
        name=name,
        source=source,
        num_requests=trace.num_requests,
        duration_s=trace.duration_s,
        rate_bin_s=bin_s,
        rate_rps=_rounded(counts / bin_s),
        gap_cv=round(_steady_gap_cv(trace.arrival_s, counts), 4),
        rank_correlation=round(_rank_correlation(trace), 4),
        probabilities=_rounded(np.array(_PROBABILITIES)),
        prompt_tokens=_rounded(prompt),
        output_tokens=_rounded(output),
        sharing=measure_sharing(trace, _SHARING_PROBABILITIES),
    )


def _steady_gap_cv(arrival_s: FloatArray, counts: FloatArray) -> float:
    """Variation of gaps measured in expected arrivals instead of seconds (time rescaling)."""
    grid_s = time_grid_s(np.unique(arrival_s))
    if grid_s is not None and grid_s > arrival_s[-1] / arrival_s.size:
        return 1.0
    edges = np.linspace(0.0, arrival_s[-1], len(counts) + 1)
    expected = np.interp(arrival_s, edges, np.concatenate(([0.0], np.cumsum(counts))))
    gaps = np.diff(expected)
    return float(gaps.std() / gaps.mean())


def _rank_correlation(trace: Trace) -> float:
    lengths = pd.DataFrame({"prompt": trace.prompt_tokens, "output": trace.output_tokens})
    return float(lengths.rank().corr().to_numpy()[0, 1])


def _rounded(values: npt.NDArray[np.floating[Any]]) -> tuple[float, ...]:
    return tuple(round(float(v), 4) for v in values)
