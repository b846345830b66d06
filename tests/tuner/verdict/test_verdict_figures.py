"""The picture holds what the plain data says."""

from __future__ import annotations

import pytest
from made_verdict import judged

from tuner.verdict.figures import axis_labels, map_figure, short, title
from tuner.verdict.report import judgement_dict

PLAIN = judgement_dict(judged())


def test_a_heatmap_per_map_with_units_and_the_own_point() -> None:
    figure = map_figure(PLAIN)
    heat = [t for t in figure.data if t.type == "heatmap"]
    assert len(heat) == len(PLAIN["map"]) == 2
    for trace, one in zip(heat, PLAIN["map"], strict=True):
        assert [list(row) for row in trace.z] == [[100 * m for m in r] for r in one["margin"]]
        assert list(trace.x) == axis_labels(PLAIN["axes"][one["x"]])
        assert len(set(trace.x)) == len(trace.x), "no two columns share a label"
    own = [t for t in figure.data if t.name == "the study's own point"]
    assert [(t.x[0], t.y[0]) for t in own] == [
        tuple(
            label
            for name in ("x", "y")
            for label in axis_labels(PLAIN["axes"][one[name]])
            if label.endswith("x1")
        )
        for one in PLAIN["map"]
    ]
    titles = [figure.layout.xaxis.title.text, figure.layout.xaxis2.title.text]
    assert titles == [PLAIN["axes"][one["x"]]["unit"] for one in PLAIN["map"]]


def test_crosses_mark_what_neither_side_meets() -> None:
    crosses = [t for t in map_figure(PLAIN).data if t.name == "neither meets the SLOs"]
    expected = [
        sum(cell["neither_meets_slo"] for row in one["cells"] for cell in row)
        for one in PLAIN["map"]
    ]
    assert [len(t.x) for t in crosses] == expected
    assert any(expected)


def test_colours_are_symmetric_and_one_scale() -> None:
    axis = map_figure(PLAIN).layout.coloraxis
    assert axis.cmin == -axis.cmax
    most = max(abs(m) for one in PLAIN["map"] for row in one["margin"] for m in row)
    assert axis.cmax == pytest.approx(100 * most)


def test_title_says_how_many_are_re_decided() -> None:
    assert "2 aggregated and 2 split candidates" in title(PLAIN)


def test_short() -> None:
    assert [short(v) for v in (1234.5, 100.0, 99.96, 3.14159, 0.0123)] == [
        "1,234",
        "100",
        "100",
        "3.14",
        "0.0123",
    ]
