"""The trace doctor: what was repaired or dropped on reading, and what looks like an artefact.

Nothing is changed here. Artefacts are traits of how traffic was recorded (a coarse clock, cut
lengths) that would be taken for traits of the traffic itself.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from profiler.traffic.checks import FloatArray, IntArray
from profiler.traffic.trace import Trace

_GRIDS_S = (0.01, 0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 30.0, 60.0)
_MIN_STAMPS = 20
_RATE_BINS = 60
_SHOWN_LINES = 5


@dataclass(frozen=True)
class RowNote:
    """Rows that met the same fate."""

    reason: str
    count: int
    lines: tuple[int, ...]
    """the first few, as numbered in the file."""

    @classmethod
    def of(cls, reason: str, lines: IntArray | tuple[int, ...]) -> RowNote:
        return cls(reason, len(lines), tuple(int(n) for n in lines[:_SHOWN_LINES]))


@dataclass(frozen=True)
class ReadReport:
    """What happened between the file and the trace."""

    file: str
    format: str
    format_evidence: str
    """how the format was found."""
    rows_read: int
    rows_kept: int
    dropped: tuple[RowNote, ...]
    repaired: tuple[RowNote, ...]
    columns: dict[str, str]
    """role -> column of the file."""
    time_unit: str
    time_evidence: str
    notes: tuple[str, ...]
    """what was undone or assumed for the file as a whole."""
    place: str = "line"
    """what the numbers in `RowNote.lines` count: line or record."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Diagnosis:
    """What the trace itself looks like."""

    figures: dict[str, Any]
    """`Trace.describe()`."""
    artefacts: tuple[str, ...]
    rate_bin_s: float
    rate_rps: tuple[float, ...] = field(repr=False)
    """mean rate in each bin of `rate_bin_s` from the start."""
    gap_cv: float | None
    """standard deviation over mean of the gaps between arrivals; 1 for a Poisson process."""
    prefix_sharing: dict[str, float] | None
    """see `prefix_sharing`; None without prefix hashes."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def diagnose(trace: Trace) -> Diagnosis:
    """Examine a trace: figures, artefacts, rate over time, prefix sharing."""
    bin_s, rates = rate_over_time(trace.arrival_s, _RATE_BINS)
    gaps = np.diff(trace.arrival_s)
    return Diagnosis(
        figures=trace.describe(),
        artefacts=tuple(find_artefacts(trace)),
        rate_bin_s=bin_s,
        rate_rps=tuple(float(r) for r in rates),
        gap_cv=float(gaps.std() / gaps.mean()) if gaps.size and gaps.mean() > 0 else None,
        prefix_sharing=prefix_sharing(trace),
    )


def rate_over_time(arrival_s: FloatArray, num_bins: int) -> tuple[float, FloatArray]:
    """Width in seconds and mean rates (requests/s) of equal bins from the first to last arrival."""
    span = float(arrival_s[-1])
    if span <= 0:
        return 0.0, np.zeros(0)
    counts, _ = np.histogram(arrival_s, bins=num_bins, range=(0.0, span))
    return span / num_bins, counts / (span / num_bins)


def find_artefacts(trace: Trace) -> list[str]:
    """Traits of the recording, each one sentence with its figures; empty when none is seen."""
    found = []
    stamps, counts = np.unique(trace.arrival_s, return_counts=True)
    grid = time_grid_s(stamps)
    mean_gap_s = trace.duration_s / max(1, trace.num_requests - 1)
    if grid is not None and (grid >= 0.1 or grid >= mean_gap_s):
        found.append(
            f"coarse clock: time stamps lie on a grid of {grid:g} s (mean gap {mean_gap_s:.3g} s); "
            "TTFT and queueing below that scale are not in this recording"
        )
    if counts.max() >= 5 or (counts.size < 0.5 * trace.num_requests and trace.num_requests > 10):
        found.append(
            f"bursts on one stamp: up to {counts.max()} requests at {stamps[counts.argmax()]:g} s, "
            f"{trace.num_requests} requests on {counts.size} stamps"
        )
    for name, tokens in (("prompt", trace.prompt_tokens), ("output", trace.output_tokens)):
        top = int(tokens.max())
        share = float((tokens == top).mean())
        if trace.num_requests >= 100 and 0.02 <= share < 1:
            found.append(f"{name} lengths look cut: {share:.1%} have the largest value, {top}")
    return found


def time_grid_s(stamps: FloatArray) -> float | None:
    """Largest step (seconds) on whose multiples 95 % of the (U,) distinct stamps lie, or None.

    A stamp counts as on the grid within 1 % of a step, so that a clock which is a millisecond off
    now and then is found too. Candidates are the usual steps of clocks and loggers.
    """
    if len(stamps) < _MIN_STAMPS:
        return None
    for step in reversed(_GRIDS_S):
        off = np.abs(stamps / step - np.round(stamps / step))
        if stamps[-1] >= _MIN_STAMPS * step and (off <= 0.01).mean() >= 0.95:
            return step
    return None


def prefix_sharing(trace: Trace) -> dict[str, float] | None:
    """Upper bound of prefix-cache hits: an unlimited cache that holds every earlier prompt.

    A request hits its leading run of whole blocks that occurred in an earlier request. Returns the
    shares of prompt tokens and of requests that hit, and the number of distinct blocks.
    """
    hashes, offsets = trace.prefix_hashes, trace.prefix_offsets
    if hashes is None or offsets is None or not trace.prefix_block_tokens:
        return None
    _, first, which = np.unique(hashes, return_index=True, return_inverse=True)
    sizes = np.diff(offsets)
    owner = np.repeat(np.arange(trace.num_requests), sizes)
    seen = owner[first][which] < owner
    within = np.arange(len(hashes)) - np.repeat(offsets[:-1], sizes)
    run = sizes.copy()
    np.minimum.at(run, owner[~seen], within[~seen])
    whole = np.minimum(run, trace.prompt_tokens // trace.prefix_block_tokens)
    hit_tokens = whole * trace.prefix_block_tokens
    return {
        "hit_token_share": float(hit_tokens.sum() / trace.prompt_tokens.sum()),
        "hit_request_share": float((hit_tokens > 0).mean()),
        "num_distinct_blocks": float(first.size),
        "block_tokens": float(trace.prefix_block_tokens),
    }
