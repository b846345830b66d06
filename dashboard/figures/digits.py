"""Numbers with as many digits as can be believed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

WIDE = 20.0
"""values that span more than this go on a log axis"""


def digits(value: float | None, scale: float = 1.0) -> str:
    """`value` times `scale` with three significant digits, or whole from 100 on: 0.123, 12.3,
    1,234; "-" for what does not exist or has no end."""
    if value is None or not math.isfinite(value):
        return "-"
    scaled = value * scale
    return f"{scaled:,.0f}" if abs(scaled) >= 100 else f"{scaled:.3g}"


def signed(value: float | None) -> str:
    """A change, with its sign; 0 has none."""
    shown = digits(value)
    return f"+{shown}" if value is not None and value > 0 else shown


def latency(seconds: float | None) -> str:
    """Milliseconds below 10 s, else seconds; "none" where there is no such figure."""
    if seconds is None or not math.isfinite(seconds):
        return "none"
    return f"{digits(seconds, 1e3)} ms" if seconds < 10 else f"{digits(seconds)} s"


def is_wide(values: Iterable[float], times: float = WIDE) -> bool:
    """Whether a log axis suits: all above 0, the largest over `times` the least."""
    known = [value for value in values if math.isfinite(value)]
    return bool(known) and bool(0 < times * min(known) < max(known))


def log_ticks(values: Sequence[float]) -> dict[str, Any]:
    """An axis' `type` and ticks for `values` above 0 on a log axis: 1, 2, 5 of each decade, or the
    decades alone where there are more than two and a half."""
    lowest, highest = math.log10(min(values)), math.log10(max(values))
    low, high = math.floor(lowest), math.ceil(highest)
    steps = (1, 2, 5) if highest - lowest <= 2.5 else (1,)
    ticks = [step * 10.0**decade for decade in range(low, high + 1) for step in steps]
    return {
        "type": "log",
        "tickvals": ticks,
        "ticktext": [f"{tick:,.10g}" for tick in ticks],
    }


def value_axis(values: Sequence[float]) -> dict[str, Any]:
    """`log_ticks` where the values above 0 span much, else an axis from 0."""
    some = [value for value in values if value > 0]
    if is_wide(some):
        return log_ticks([min(some), max(some)])
    return {"rangemode": "tozero", "tickformat": ","}
