"""The nearest trials of a front."""

from __future__ import annotations

from dashboard import tables
from dashboard.derive.neighbours import nearest
from tests.dashboard.made_points import FRONT, point

FIGURES = ["ttft_p99_s", "itl_p99_s"]


def test_only_others_on_the_front_are_near() -> None:
    assert nearest(tables.points(FRONT), 1, FIGURES) == [2]
    assert nearest(tables.points(FRONT), 3, FIGURES) == [1, 2]


def test_a_trial_without_a_figure_is_far_but_has_neighbours() -> None:
    assert sorted(nearest(tables.points(FRONT), 4, FIGURES)) == [1, 2]


def test_settings_are_compared_by_factors_and_names_by_being_equal() -> None:
    frame = tables.points(
        [
            point(0, 0.1, 0.1, "on the front", budget=100, reserve=True),
            point(1, 0.1, 0.1, "on the front", budget=10_000, reserve=True),
            point(2, 0.1, 0.1, "on the front", budget=1_000, reserve=True),
            point(3, 0.1, 0.1, "on the front", budget=100, reserve=False),
        ]
    )
    assert nearest(frame, 0, tables.setting_columns(frame)) == [2, 1, 3]


def test_an_unknown_trial_has_none() -> None:
    assert nearest(tables.points(FRONT), 77, FIGURES) == []
    assert nearest(tables.points(FRONT), 1, []) == []
