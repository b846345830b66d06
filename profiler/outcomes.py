"""Outcomes: what happened to each request, simulated or measured, in one form.

Metrics are computed from this table alone (`tuner.metrics`), so that a simulated and a measured
number mean the same thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from profiler.errors import ResultsError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Status(IntEnum):
    """How a request ended."""

    UNFINISHED = 0  # the run ended first
    FINISHED = 1
    REJECTED = 2  # longer than the model limit or than the whole KV pool; never admitted
    FAILED = 3  # the engine reported an error for it


@dataclass(frozen=True)
class Outcomes:
    """Per-request results (N requests, in order of arrival) and token gaps (G entries).

    A gap is the time between two consecutive tokens of one request. Requests that decode in the
    same step share that step's gap, so a gap carries a weight: how many requests of each class
    (C classes) had it.
    """

    arrival_s: FloatArray
    """(N,) intended arrival, seconds from the start of the trace."""
    first_token_s: FloatArray
    """(N,) first token at the client; NaN when there was none."""
    finish_s: FloatArray
    """(N,) last token at the client; NaN when not finished."""
    prompt_tokens: IntArray
    """(N,) tokens."""
    output_tokens: IntArray
    """(N,) tokens produced."""
    status: IntArray
    """(N,) a `Status`."""
    request_class: IntArray
    """(N,) index of the request's class, 0 .. C-1."""
    num_slow_gaps: IntArray
    """(N,) gaps of this request longer than `itl_limit_s` of its class (0 without a limit)."""
    itl_limit_s: FloatArray
    """(C,) the limit that `num_slow_gaps` was counted against, seconds; NaN for none."""
    gap_s: FloatArray
    """(G,) gap, seconds."""
    gap_weight: IntArray
    """(G, C) number of requests of each class that had this gap."""

    @property
    def num_requests(self) -> int:
        return int(self.arrival_s.size)

    def save(self, path: Path) -> None:
        """Write `path` (requests) and `<stem>.gaps.parquet` beside it (gaps)."""
        rows = {f.name: getattr(self, f.name) for f in fields(self) if f.name in _REQUEST_FIELDS}
        limits = ",".join(repr(float(x)) for x in self.itl_limit_s)
        table = pa.table(rows).replace_schema_metadata({"itl_limit_s": limits})
        pq.write_table(table, path)
        gaps: dict[str, npt.NDArray[np.generic]] = {"gap_s": self.gap_s}
        for c in range(self.gap_weight.shape[1]):
            gaps[f"weight_{c}"] = self.gap_weight[:, c]
        pq.write_table(pa.table(gaps), gaps_path(path))

    @classmethod
    def load(cls, path: Path) -> Outcomes:
        """Read what `save` wrote. Raises `ResultsError` when a file is missing or damaged."""
        try:
            with pq.ParquetFile(path) as rows, pq.ParquetFile(gaps_path(path)) as gap_rows:
                table, gaps = rows.read(), gap_rows.read()
        except (OSError, pa.ArrowException) as error:
            raise ResultsError(f"outcomes cannot be read from {path}: {error}") from error
        limits = (table.schema.metadata or {}).get(b"itl_limit_s", b"nan").decode()
        weights = [gaps[c].to_numpy() for c in gaps.column_names if c.startswith("weight_")]
        columns = {name: table[name].to_numpy() for name in _REQUEST_FIELDS}
        return cls(
            **columns,
            itl_limit_s=np.array([float(x) for x in limits.split(",")]),
            gap_s=gaps["gap_s"].to_numpy(),
            gap_weight=np.stack(weights, axis=1),
        )


_REQUEST_FIELDS = (
    "arrival_s",
    "first_token_s",
    "finish_s",
    "prompt_tokens",
    "output_tokens",
    "status",
    "request_class",
    "num_slow_gaps",
)


def gaps_path(path: Path) -> Path:
    """Where the gaps that belong to the outcomes at `path` are kept."""
    return path.with_suffix(".gaps.parquet")


@dataclass(frozen=True)
class LateSteps:
    """How well a rehearsed engine kept to the latency model's time. Durations in seconds."""

    num_steps: int
    num_late: int
    """steps that ended more than a tenth of their time, and more than 1 ms, too late"""
    late_s: float
    """by how much those were late, summed"""
    modelled_s: float
    """what all steps should have taken, summed"""

    @property
    def late_share(self) -> float:
        """Part of the steps that were late."""
        return self.num_late / max(1, self.num_steps)

    @property
    def mean_late_s(self) -> float:
        """Mean lateness of the late steps; 0 when none was."""
        return self.late_s / max(1, self.num_late)

    @property
    def slowdown(self) -> float:
        """Time lost by late steps as a part of what all steps should have taken."""
        return self.late_s / self.modelled_s if self.modelled_s else 0.0


@dataclass(frozen=True)
class TokenTimes:
    """What a replay saw: for each request, the client-side time of every token."""

    intended_s: FloatArray
    """(N,) intended arrival, seconds from the start of the replay."""
    sent_s: FloatArray
    """(N,) when the request was really handed to the engine."""
    token_s: Sequence[FloatArray]
    """N arrays, the time of each token; several tokens of one message share a time."""
    prompt_tokens: IntArray
    """(N,) tokens."""
    failed: npt.NDArray[np.bool_]
    """(N,) the engine reported an error."""
    origin_s: float = 0.0
    """start of the replay on the machine's monotonic clock, seconds"""
    late_steps: LateSteps | None = None
    """of a rehearsed engine; None for one that computes"""


def outcomes_from_token_times(
    times: TokenTimes, request_class: IntArray, itl_limit_s: FloatArray
) -> Outcomes:
    """Measured outcomes: every gap of every request, weight 1, counted against its class limit.

    Parameters
    ----------
    times
        What the client saw.
    request_class
        (N,) index of each request's class.
    itl_limit_s
        (C,) ITL limit of each class, seconds; NaN for none.
    """
    n, num_classes = len(times.token_s), itl_limit_s.size
    counts = np.array([t.size for t in times.token_s], dtype=np.int64)
    some = counts > 0
    first, last = np.full(n, np.nan), np.full(n, np.nan)
    first[some] = [t[0] for t in times.token_s if t.size]
    last[some] = [t[-1] for t in times.token_s if t.size]
    last[times.failed] = np.nan
    gap_lists = [np.diff(t) for t in times.token_s]
    gap_s = np.concatenate(gap_lists) if gap_lists else np.empty(0)
    owner = np.repeat(np.arange(n), np.maximum(counts - 1, 0))
    weight = np.zeros((gap_s.size, num_classes), dtype=np.int64)
    weight[np.arange(gap_s.size), request_class[owner]] = 1
    slow = gap_s > itl_limit_s[request_class[owner]]  # False against NaN
    status = np.where(times.failed, Status.FAILED, Status.FINISHED)
    status = np.where(~times.failed & ~some, Status.UNFINISHED, status)
    return Outcomes(
        arrival_s=times.intended_s,
        first_token_s=first,
        finish_s=last,
        prompt_tokens=times.prompt_tokens,
        output_tokens=counts,
        status=status.astype(np.int64),
        request_class=request_class,
        num_slow_gaps=np.bincount(owner[slow], minlength=n).astype(np.int64),
        itl_limit_s=itl_limit_s,
        gap_s=gap_s,
        gap_weight=weight,
    )
