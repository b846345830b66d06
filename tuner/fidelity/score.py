"""Relative errors of predictions, by group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuner.fidelity.predict import Prediction
from tuner.fidelity.rows import Row

Pair = tuple[Row, Prediction]


@dataclass(frozen=True)
class Errors:
    """Absolute relative errors of `num_rows` rows: mean (MAPE) and median, and the median of
    predicted / measured."""

    num_rows: int
    ttft_mape: float
    ttft_median: float
    ttft_ratio: float
    tpot_mape: float
    tpot_median: float
    tpot_ratio: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON, to 4 decimals."""
        figures = {name: round(value, 4) for name, value in vars(self).items()}
        return {**figures, "num_rows": self.num_rows}


def errors_of(pairs: Sequence[Pair]) -> Errors | None:
    """Errors of predictions against their rows; None without rows."""
    if not pairs:
        return None
    ttft = np.array([found.ttft_s / row.ttft_s for row, found in pairs])
    tpot = np.array([found.tpot_s / row.tpot_s for row, found in pairs])
    figures = []
    for ratio in (ttft, tpot):
        off = np.abs(ratio - 1.0)
        figures += [float(off.mean()), float(np.median(off)), float(np.median(ratio))]
    return Errors(len(pairs), *figures)


def concurrency_band(row: Row) -> str:
    """The band of concurrency that `row` is reported in."""
    for top in (8, 32, 128):
        if row.concurrency <= top:
            return f"up to {top}"
    return "above 128"


GROUPS: dict[str, Callable[[Row], str]] = {
    "model": lambda row: row.family,
    "GPU": lambda row: row.system,
    "concurrency": concurrency_band,
    "engine version": lambda row: row.engine_version or "unstated",
}
"""what the errors are split by"""


def by_group(pairs: Sequence[Pair], group: Callable[[Row], str]) -> dict[str, Errors]:
    """Errors of the rows of each group, in the order of their names."""
    split: dict[str, list[Pair]] = {}
    for pair in pairs:
        split.setdefault(group(pair[0]), []).append(pair)
    found = {name: errors_of(split[name]) for name in sorted(split)}
    return {name: errors for name, errors in found.items() if errors is not None}


def repeats(rows: Iterable[Row]) -> list[Pair]:
    """Rows measured more than once under the same engine version, each with the mean of the others
    for its prediction: no prediction can be expected to do better."""
    same: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        same.setdefault((*row.deployment, row.engine_version), []).append(row)
    return [
        (row, _mean([other for other in group if other is not row]))
        for group in same.values()
        if len(group) > 1
        for row in group
    ]


def _mean(rows: Sequence[Row]) -> Prediction:
    return Prediction(
        float(np.mean([row.ttft_s for row in rows])), float(np.mean([row.tpot_s for row in rows]))
    )
