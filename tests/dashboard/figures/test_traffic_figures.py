"""Figures of traffic."""

from __future__ import annotations

import numpy as np

from dashboard.derive.traffic_shape import cumulative, rate, traffic_shape
from dashboard.figures import traffic as figures
from profiler.traffic.trace import Trace
from tests.dashboard.derive.test_traffic_shape import made


def test_lengths_have_a_line_per_class_on_log_axes() -> None:
    figure = figures.lengths_figure(traffic_shape(made())["histograms"])
    assert [trace.name for trace in figure.data] == ["chat", "code", "chat", "code"]
    assert len({(t.line.dash, t.line.color) for t in figure.data}) == 2
    assert figure.data[0].line.dash != figure.data[1].line.dash
    assert figure.layout.xaxis.type == figure.layout.xaxis2.type == "log"
    assert "tokens" in figure.layout.xaxis.title.text
    assert [trace.showlegend for trace in figure.data] == [True, True, False, False]


def test_the_density_is_empty_where_no_request_is() -> None:
    shape = traffic_shape(made(50))
    (heat,) = figures.joint_figure(shape["joint"]).data
    counts = np.array(shape["joint"]["counts"])
    assert np.array_equal(np.isnan(heat.z), counts == 0)
    assert heat.z[counts == 1].max() == 0.0


def test_regimes_are_marked_where_there_are_several() -> None:
    arrival = np.concatenate([np.arange(0, 500, 1.0), np.arange(500, 600, 0.1)])
    changed = Trace.build(arrival, np.full(1500, 100), np.full(1500, 10))
    shape = traffic_shape(changed)
    figure = figures.rate_figure(shape["rate"], shape["regimes"])
    means = [t for t in figure.data if t.name == "mean of a regime"]
    assert len(means) == len(shape["regimes"]) == 2
    assert [a.text for a in figure.layout.annotations] == ["1", "2"]
    assert "seconds" in figure.layout.xaxis.title.text
    calm = traffic_shape(made(300))
    assert len(figures.rate_figure(calm["rate"], calm["regimes"]).data) == 1


def test_long_traffic_is_in_minutes() -> None:
    shape = traffic_shape(made(4000))
    figure = figures.rate_figure(shape["rate"], shape["regimes"])
    assert "minutes" in figure.layout.xaxis.title.text
    end = shape["diagnosis"]["figures"]["duration_s"] / 60
    assert abs(figure.data[0].x[-1] - end) < 1e-6


def test_burstiness_shows_the_poisson_band() -> None:
    shape = traffic_shape(made())
    figure = figures.burstiness_figure(shape["burstiness"])
    band, own = figure.data
    assert band.fill == "toself" and len(band.x) == 2 * len(own.x)
    assert "seconds" in figure.layout.xaxis.title.text


def test_before_and_after_differ_in_more_than_colour() -> None:
    trace, other = made(), made(seed=2)
    pair = {"before": trace, "after": other}
    lengths = {"prompt": {n: cumulative(t.prompt_tokens) for n, t in pair.items()}}
    before, after = figures.before_after_lengths(lengths).data
    assert (before.line.dash, after.line.dash) == ("solid", "dash")
    figure = figures.before_after_rate({n: rate(t, 60) for n, t in pair.items()})
    assert [t.name for t in figure.data] == ["of the study", "newer"]
    assert figure.data[0].line.dash != figure.data[1].line.dash


def test_traffic_on_one_stamp_can_be_compared_in_a_figure() -> None:
    once = Trace.build(np.zeros(60), np.full(60, 5), np.full(60, 1))
    figure = figures.before_after_rate({"before": rate(once), "after": rate(made())})
    assert len(figure.data[0].x) == 0
