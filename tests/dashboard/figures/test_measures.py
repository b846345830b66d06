"""Axes with units."""

from __future__ import annotations

import math

import pandas as pd

from dashboard import tables
from dashboard.figures.digits import digits, is_wide, signed
from dashboard.figures.measures import GOODPUT, ITL, TTFT, measures_of
from tests.dashboard.made_points import FRONT, point


def test_numbers_have_three_digits() -> None:
    values = (1234.4, 38.21, 0.0512, 0.0, -2.5)
    assert [digits(v) for v in values] == ["1,234", "38.2", "0.0512", "0", "-2.5"]
    assert [digits(v) for v in (None, math.nan, math.inf)] == ["-"] * 3
    assert digits(12.3456, 1e3) == "12,346"
    assert [signed(v) for v in (1234.4, -2.5, 0.0, None)] == ["+1,234", "-2.5", "0", "-"]


def test_words_have_units() -> None:
    assert TTFT.words(1.2344) == "1,234 ms"
    assert TTFT.words(None) == "without end"
    assert ITL.words(math.nan) == "none"


def test_measures_are_those_with_values_and_the_settings_that_are_numbers() -> None:
    frame = tables.points([p | {"settings": {"max_num_seqs": p["number"]}} for p in FRONT])
    labels = [m.label for m in measures_of(frame)]
    assert labels == [
        "ITL p99, ms",
        "TTFT p99, ms",
        "goodput, requests/s",
        "chance to meet the SLOs, %",
        "max_num_seqs, requests",
    ]
    names = [point(n, 0.1, 0.1, router=str(n)) for n in range(2)]
    assert not any(m.column.startswith(tables.SETTING) for m in measures_of(tables.points(names)))
    assert GOODPUT in measures_of(tables.points(names))


def test_wide_values_are_positive_and_span_many_times() -> None:
    assert is_wide(pd.Series([1.0, 21.0]))
    assert not is_wide(pd.Series([1.0, 19.0]))
    assert not is_wide(pd.Series([0.0, 100.0]))
    assert not is_wide(pd.Series([], dtype=float))
