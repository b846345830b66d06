"""Durations on the command line."""

from __future__ import annotations

import re

from profiler.errors import StudyError

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """`90`, `90s`, `1.5m` or `2h` in seconds. Raises `StudyError`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None or float(match[1]) == 0:
        raise StudyError(f"a duration must be like 90s, 5m or 1h, got {text!r}")
    return float(match[1]) * _UNITS[match[2]]
