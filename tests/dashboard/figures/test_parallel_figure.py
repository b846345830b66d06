"""Parallel coordinates."""

from __future__ import annotations

import pytest

from dashboard import tables
from dashboard.figures.parallel import MOST_LINES, parallel_figure, thinned
from tests.dashboard.made_points import FRONT, plan, point, split


def axes(figure):  # type: ignore[no-untyped-def]
    return {axis.label: axis for axis in figure.data[0].dimensions}


def test_wide_settings_are_logarithmic_with_plain_ticks() -> None:
    budget = axes(parallel_figure(thinned(tables.points(FRONT)), by_kind=False))["budget"]
    assert list(budget.values) == [2048, 300, 256, 512] and budget.ticktext is None
    wide = [point(n, 0.1, 0.1, budget=2**n) for n in range(6)]
    budget = axes(parallel_figure(tables.points(wide), by_kind=False))["budget"]
    assert list(budget.ticktext) == ["1", "2", "5", "10", "20", "32"]
    assert budget.values[5] == pytest.approx(1.505, abs=1e-3)


def test_zero_lies_below_a_logarithmic_axis() -> None:
    caps = [point(n, 0.1, 0.1, cap=cap) for n, cap in enumerate([0, 16, 1024])]
    axis = axes(parallel_figure(tables.points(caps), by_kind=False))["cap"]
    assert axis.ticktext[0] == "0" and axis.values[0] < axis.values[1]


def test_names_have_a_place_each_and_pools_that_are_not_there_one_too() -> None:
    fleets = [point(0, 0.1, 0.1), point(1, 0.1, 0.1)]
    fleets[0]["settings"], fleets[1]["settings"] = plan(2), split(1, 1)
    known = axes(parallel_figure(tables.points(fleets), by_kind=False))
    assert list(known["mode"].ticktext) == ["aggregated", "disaggregated"]
    assert list(known["decode_router"].ticktext) == ["not there", "round-robin"]
    assert list(known["decode_router"].values) == [-1, 0]


def test_lines_are_thinned_but_the_front_stays() -> None:
    many = [point(n, 0.1, 0.1, budget=n) for n in range(3 * MOST_LINES)]
    kept = thinned(tables.points([*many, *(p | {"number": 10_000} for p in FRONT[1:2])]))
    assert len(kept) <= MOST_LINES and 10_000 in kept["number"].tolist()
    assert len(thinned(tables.points(FRONT))) == 4  # one trial never answers


def test_lines_can_be_coloured_by_kind() -> None:
    figure = parallel_figure(thinned(tables.points(FRONT)), by_kind=True)
    assert sorted(figure.data[0].line.color) == [0, 1, 2, 2]
