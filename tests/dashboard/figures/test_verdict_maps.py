"""Figures of a verdict."""

from __future__ import annotations

import pytest

from dashboard.figures.verdict import (
    headroom_figure,
    labels_of,
    letter,
    map_figure,
    regimes_figure,
)
from tests.dashboard.made_fleets import verdict


def _cell(margin: float, hopeless: bool = False) -> dict[str, object]:
    return {"margin": margin, "neither_meets_slo": hopeless}


@pytest.mark.parametrize(
    ("margin", "hopeless", "text"),
    [(0.121, False, "S 12"), (-0.05, True, "A 5 ✕"), (0.002, False, "="), (0.0, True, "= ✕")],
)
def test_a_cell_says_who_is_ahead(margin: float, hopeless: bool, text: str) -> None:
    assert letter(_cell(margin, hopeless)) == text


def test_maps_have_the_verdicts_margins_and_frame_its_own_cell() -> None:
    plain = verdict()
    assert len(plain["map"]) == 2
    for one in plain["map"]:
        figure = map_figure(plain, one)
        heat = figure.data[0]
        assert [list(row) for row in heat.z] == [[100 * m for m in row] for row in one["margin"]]
        assert heat.zmin == -heat.zmax, "diverging from 0"
        frame = figure.layout.shapes[0]
        x = plain["axes"][one["x"]]["factors"].index(1.0)
        assert (frame.x0 + frame.x1) / 2 == x
        assert figure.layout.xaxis.title.text == plain["axes"][one["x"]]["unit"]


def test_labels_that_look_alike_get_their_factors() -> None:
    assert labels_of({"values": [1.0, 2.0], "factors": [1.0, 2.0]}) == ["1", "2"]
    assert len(set(labels_of({"values": [1000.1, 1000.2], "factors": [1.0, 2.0]}))) == 2


def test_headroom_of_both_sides_beside_the_traffic() -> None:
    plain = verdict()
    figure = headroom_figure(plain)
    rates = {trace.name: trace.x[0] for trace in figure.data}
    assert rates == {
        word: plain[side]["headroom"]["highest_rps"]
        for side, word in (("aggregated", "aggregated"), ("disaggregated", "split"))
        if plain[side]["headroom"]["highest_rps"] is not None
    }
    assert figure.layout.shapes[0].x0 == plain["axes"]["load"]["own"]
    assert len({trace.marker.symbol for trace in figure.data}) == len(figure.data)


def test_a_side_that_never_meets_the_slos_has_no_headroom() -> None:
    none = {"highest_rps": None, "bounded": True}
    plain = verdict() | {side: {"headroom": none} for side in ("aggregated", "disaggregated")}
    assert len(headroom_figure(plain).data) == 0


def test_regimes_show_every_ratio_as_a_share_of_the_best() -> None:
    regimes = verdict()["regimes"]
    assert len(regimes["stretches"]) > 1
    heat = regimes_figure(regimes).data[0]
    for column, row in enumerate(regimes["stretches"]):
        shares = [values[column] for values in heat.z]
        assert max(shares) == pytest.approx(100)
        planned = list(row["by_ratio"]).index(row["planned"])
        assert [values[column] for values in heat.text].index("★") == planned
