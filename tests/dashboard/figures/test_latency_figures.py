"""Figures of the Latency page: what is drawn, in which units, and on which axes."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.figures.digits import digits, latency, log_ticks
from dashboard.figures.latency import (
    cumulative_figure,
    looks,
    over_time_figure,
    tail_figure,
)
from dashboard.figures.load import capacity_figure, headroom
from tests.tuner.search.test_load_curve import fake_curve
from tuner.search.load_figure import load_figure

PERCENTS = [0.0, 50.0, 99.0, 99.9, 100.0]


def one(values: list[float | None], num: int = 1000) -> dict[str, Any]:
    return {"ttft_s": values, "itl_s": values, "num_ttft": num, "num_itl": num}


def test_a_wide_distribution_is_on_a_log_axis_with_its_limit_in_place() -> None:
    curves = {"recommended": one([0.001, 0.01, 0.02, 0.5, 1.0])}
    figure = cumulative_figure("itl", PERCENTS, curves, {"SLO": 0.1})
    assert figure.layout.xaxis.type == "log" and figure.layout.xaxis.title.text == "ITL, ms"
    assert list(figure.data[0].x) == pytest.approx([1.0, 10.0, 20.0, 500.0, 1000.0])
    assert list(figure.data[0].y) == PERCENTS
    assert figure.layout.shapes[0].x0 == pytest.approx(100.0)
    assert figure.layout.annotations[0].x == pytest.approx(2.0)  # a power of ten
    narrow = cumulative_figure("ttft", PERCENTS, {"a": one([1.0, 1.1, 1.2, 1.3, 1.4])}, {"SLO": 2})
    assert narrow.layout.xaxis.type is None
    assert narrow.layout.annotations[0].x == pytest.approx(2000.0)


def test_a_tail_ends_with_one_sample() -> None:
    figure = tail_figure("ttft", PERCENTS, {"a": one([0.1, 0.2, 0.3, 0.4, 0.5], num=100)}, {})
    assert list(figure.data[0].y) == pytest.approx([100.0, 50.0, 1.0])
    assert figure.layout.yaxis.type == "log"


def test_values_without_end_are_left_out() -> None:
    figure = cumulative_figure("ttft", PERCENTS, {"a": one([0.1, 0.2, None, None, None])}, {})
    assert list(figure.data[0].x) == pytest.approx([100.0, 200.0])
    assert not cumulative_figure("ttft", PERCENTS, {"a": one([None] * 5)}, {}).data[0].x


def test_no_two_lines_differ_in_colour_alone() -> None:
    for names in (
        ["recommended", "engine default", "trial 1", "trial 2", "trial 3", "trial 4"],
        ["trial 9", "engine default", "trial 1", "trial 2"],
        ["predicted", "measured", "measured, at profile speed"],
    ):
        found = looks(names).values()
        assert len({look.dash for look in found}) == len({look.color for look in found})
        assert len({look.dash for look in found}) == len(names)


def test_peaks_are_shown_and_medians_can_be() -> None:
    series = {"peak": [1.0, 3.0], "median": [0.5, 1.0]}
    points = {
        "a": {
            "time_s": [0.0, 1800.0],
            **dict.fromkeys(("waiting", "running", "tokens", "kv"), series),
        },
        "b": {"time_s": []},
    }
    figure = over_time_figure(points)
    assert figure.layout.xaxis4.title.text == "time in the traffic, minutes"
    assert list(figure.data[0].x) == [0.0, 30.0]
    assert [t.visible for t in figure.data] == [True] * 4 + ["legendonly"] * 4


def test_headroom_in_words() -> None:
    curve = fake_curve(lambda rate: rate - 1.4)
    assert headroom(curve, 1.0).startswith("x meets the SLOs up to 1.4 requests/s, 1.4 times today")
    assert "at least 16 requests/s" in headroom(fake_curve(lambda rate: -1.0), 1.0)
    assert headroom(fake_curve(lambda rate: 1.0), 1.0).endswith("at no arrival rate that was tried")


def test_the_rate_today_and_the_highest_are_marked() -> None:
    curve = fake_curve(lambda rate: rate - 1.4)
    figure = capacity_figure([curve], 1.0)
    assert {s.x0 for s in figure.layout.shapes} == {1.0, curve.highest_rps}
    assert figure.layout.xaxis4.title.text == "arrival rate, requests/s"
    picture = load_figure([curve, curve])
    assert picture.layout.xaxis3.title.text == picture.layout.xaxis4.title.text
    assert len({t.line.dash for t in picture.data}) == 2


def test_digits() -> None:
    assert [digits(x) for x in (0.1234, 12.34, 1234.5)] == ["0.123", "12.3", "1,234"]
    assert [latency(x) for x in (None, 0.02, 1.5, 20.0)] == ["none", "20 ms", "1,500 ms", "20 s"]
    assert log_ticks([0.5, 5])["ticktext"][:4] == ["0.1", "0.2", "0.5", "1"]
    assert log_ticks([1, 20000])["tickvals"] == [1.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0]
