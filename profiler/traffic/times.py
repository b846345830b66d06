"""From a column of arrival times to seconds, and how the unit was found."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from profiler.errors import TraceError
from profiler.traffic.checks import FloatArray
from profiler.traffic.columns import UNITS, numbers, shown_value
from profiler.traffic.raw import RawTable

_EPOCH = {"s": 1e9, "ms": 1e12, "us": 1e15, "ns": 1e18}
"""smallest Unix time of 10, 13, 16 or 19 digits, the number that the years 2001 to 2286 have."""


@dataclass(frozen=True)
class Times:
    """Arrival times of (N,) rows, in the order of the file."""

    seconds: FloatArray
    """(N,) from the earliest row, which is at 0; not sorted yet."""
    unit: str
    """s, ms, us, ns or date-time."""
    evidence: str
    """how the unit was found."""


def read_times(table: RawTable, column: str, unit: str | None, evidence: str) -> Times:
    """Seconds of an arrival column of numbers or of ISO 8601 date-times.

    Parameters
    ----------
    unit
        Unit of a column of numbers; None to find it by `guess_unit`.
    evidence
        Why `unit` is right, for the report.

    Raises
    ------
    TraceError
        A value is missing or no time, or a unit was given for date-times.
    """
    if not _is_numeric(table.frame[column]):
        if unit is not None:
            raise TraceError(
                f"{table.at(0)}: {column} is {shown_value(table.frame[column].iloc[0])}, but unit "
                f"{unit} needs numbers; leave unit out for date-times"
            )
        return Times(_date_times(table, column), "date-time", "ISO 8601 date-times")
    values = numbers(table, column)
    if unit is None:
        unit, evidence = guess_unit(column, values)
    return Times((values - values.min()) / UNITS[unit], unit, evidence)


def guess_unit(column: str, values: FloatArray) -> tuple[str, str]:
    """Unit of (N,) numeric times and the reason for it.

    In this order: a unit at the end of the column's name; the size of a Unix time; else the unit
    that puts the mean rate nearest to 1 request/s on a log scale.
    """
    named = re.search(r"(?:^|[_\W])(s|sec|seconds|ms|us|ns)\W*$", column.lower())
    if named:
        word = named.group(1)
        return ("s" if word.startswith("s") else word), f"named by the column {column!r}"
    for unit, low in _EPOCH.items():
        if low <= values.min() and values.max() < 10 * low:
            return unit, f"guessed: the values are Unix times in {unit}; override with unit=..."
    span = float(values.max() - values.min())
    if span == 0:
        return "s", "guessed: all times are equal, so that the unit does not matter"
    rates = {unit: (len(values) - 1) * per_s / span for unit, per_s in UNITS.items()}
    best = min(rates, key=lambda unit: abs(math.log(rates[unit])))
    other = "s" if best != "s" else "ms"
    return best, (
        f"guessed: in {best} the mean rate is {rates[best]:.3g} requests/s, in {other} it would be "
        f"{rates[other]:.3g}; override with --map unit={other}"
    )


def _is_numeric(series: pd.Series) -> bool:
    if series.dtype.kind in "iufb":
        return True
    if series.dtype.kind == "M":
        return False
    return bool(pd.notna(pd.to_numeric(series.iloc[:1], errors="coerce")).all())


def _date_times(table: RawTable, column: str) -> FloatArray:
    series = table.frame[column]
    if series.dtype.kind != "M":
        parsed = pd.to_datetime(series, format="ISO8601", utc=True, errors="coerce")
    else:
        parsed = pd.to_datetime(series, utc=True)
    bad = parsed.isna().to_numpy()
    if bad.any():
        row = int(np.argmax(bad))
        raise TraceError(
            f"{table.at(row)}: {column} is {shown_value(series.iloc[row])}, neither a number nor "
            "an ISO 8601 date-time; mend or remove that row"
        )
    stamps = parsed.astype("datetime64[ns, UTC]").astype("int64").to_numpy()
    return np.asarray((stamps - stamps.min()) / 1e9, dtype=np.float64)
