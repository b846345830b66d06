"""Flips against a fine scan, and against algebra."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from made_verdict import FLIP_LENGTH, evaluations, nothing

from tuner.verdict.conditions import FACTORS, LINK_BANDWIDTH, OWN, PROMPT_LENGTH
from tuner.verdict.flips import TOLERANCE, Change, find_changes
from tuner.verdict.grid import cell
from tuner.verdict.margin import TIE, leader

GRID = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def slow_changes(low: float, high: float, places: Sequence[float], names: str) -> list[str]:
    """Changes on a very fine scan, as "before>after" with the factor of the step."""
    scan = np.geomspace(low, high, 20_001)
    states = [names[int(np.searchsorted(places, x))] for x in scan]
    return [f"{a}>{b}@{x:.3f}" for a, b, x in zip(states, states[1:], scan, strict=False) if a != b]


@pytest.mark.parametrize("seed", range(20))
def test_changes_are_those_of_a_fine_scan(seed: int) -> None:
    """At most one place between neighbours of the grid, so that none is hidden."""
    rng = np.random.default_rng(seed)
    gaps = rng.permutation(6)[: rng.integers(0, 5)]
    places = sorted(GRID[g] * 2 ** rng.uniform(0.1, 0.9) for g in gaps)
    names = "abcdef"

    def states(at: Sequence[float]) -> list[str]:
        return [names[int(np.searchsorted(places, x))] for x in at]

    found = find_changes(GRID, states)
    expected = slow_changes(GRID[0], GRID[-1], places, names)
    assert [f"{c.before}>{c.after}" for c in found] == [text.split("@")[0] for text in expected]
    for change, place in zip(found, places, strict=True):
        assert change.low <= place <= change.high <= change.low * (1 + TOLERANCE)
        assert change.factor == pytest.approx(place, rel=TOLERANCE)


def test_a_third_state_splits_the_bracket() -> None:
    def states(at: Sequence[float]) -> list[str]:
        return ["a" if x < 2.5 else "tie" if x < 3 else "b" for x in at]

    found = find_changes((1.0, 4.0), states)
    assert [(c.before, c.after) for c in found] == [("a", "tie"), ("tie", "b")]
    assert [c.factor for c in found] == pytest.approx([2.5, 3.0], rel=TOLERANCE)


def test_nothing_changes() -> None:
    assert find_changes(GRID, lambda at: ["a"] * len(at)) == []


def test_all_brackets_are_halved_in_one_call() -> None:
    calls = []

    def states(at: Sequence[float]) -> list[str]:
        calls.append(len(at))
        return ["a" if x < 0.2 or 3 < x < 5 else "b" for x in at]

    assert len(find_changes(GRID, states)) == 3
    assert calls[0] == len(GRID)
    assert set(calls[1:]) == {3}


def flips_along(axis: str) -> list[Change]:
    known = evaluations()

    def states(at: Sequence[float]) -> list[str]:
        where = [OWN.at(axis, factor) for factor in at]
        known.need(where, nothing)
        return [leader(cell(known, c).margin) for c in where]

    return find_changes(FACTORS[axis], states)


def test_length_flips_where_algebra_says() -> None:
    """1 / (1 + L) = 0.4 at L = 1.5; a tie within 1 % of it."""
    low, high = flips_along(PROMPT_LENGTH)
    assert (low.before, low.after) == ("aggregated", "tie")
    assert (high.before, high.after) == ("tie", "disaggregated")
    assert low.factor == pytest.approx((1 - TIE) / 0.4 - 1, rel=TOLERANCE)
    assert high.factor == pytest.approx(1 / (0.4 * (1 - TIE)) - 1, rel=TOLERANCE)
    assert low.factor < FLIP_LENGTH < high.factor


def test_bandwidth_never_flips_a_clear_verdict() -> None:
    assert flips_along(LINK_BANDWIDTH) == []
