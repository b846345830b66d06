"""The figure of a front."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from dashboard import tables
from dashboard.figures.front import boundary, front_figure, num_drawn
from dashboard.figures.front_axes import slo_lines
from dashboard.figures.front_view import Marks, View
from dashboard.figures.measures import GOODPUT, ITL, PER_GPU, TTFT, Measure, measures_of
from tests.dashboard.made_points import FRONT, plan, point

SLO = {"default": {"ttft_p99_s": 1.0, "itl_p99_s": 0.1}}
NONE = pd.DataFrame()


def drawn(figure: go.Figure, name: str) -> Any:
    return next(trace for trace in figure.data if trace.name == name)


def pair(**changes: Any) -> pd.DataFrame:
    row = {"label": "recommended", "evidence": "measured", "number": 1.0, "num_gpus": np.nan}
    row |= {"predicted.ttft_p99_s": 0.4, "seen.ttft_p99_s": 0.5}
    row |= {"predicted.itl_p99_s": 0.02, "seen.itl_p99_s": 0.025}
    row |= {"predicted.goodput_rps": 2.0, "seen.goodput_rps": 1.6}
    return pd.DataFrame([row | changes])


def a_setting(trials: pd.DataFrame) -> Measure:
    """The first setting among what the axes can show."""
    return next(m for m in measures_of(trials) if m.column.startswith(tables.SETTING))


def test_kinds_are_apart_and_what_misses_is_drawn_first() -> None:
    figure = front_figure(tables.points(FRONT), NONE, View(limits=SLO), Marks())
    names = [trace.name for trace in figure.data[:3]]
    assert names == ["misses an SLO", "meets the SLOs", "front"]
    assert figure.data[0].marker.symbol == "circle-open"
    assert list(drawn(figure, "front").x) == [20.0, 50.0]
    assert list(drawn(figure, "front").y) == [400.0, 200.0]


def test_an_uncertain_trial_is_open_and_a_number_is_with_every_mark() -> None:
    front = drawn(front_figure(tables.points(FRONT), NONE, View(), Marks()), "front")
    assert list(front.marker.symbol) == ["diamond", "diamond-open"]
    assert [row[0] for row in front.customdata] == [1, 2]
    assert "trial %{customdata[0]}" in front.hovertemplate


def test_axes_are_over_what_meets_unless_all_is_asked_for() -> None:
    trials = tables.points(FRONT)
    near = front_figure(trials, NONE, View(limits=SLO), Marks())
    far = front_figure(trials, NONE, View(limits=SLO, everything=True), Marks())
    assert near.layout.xaxis.type == "linear" and near.layout.xaxis.range[1] < 110
    assert far.layout.xaxis.type == "log" and 10 ** far.layout.xaxis.range[1] > 9000


def test_a_marked_trial_is_inside_the_axes() -> None:
    figure = front_figure(tables.points(FRONT), NONE, View(log_x=False), Marks(chosen=0))
    assert figure.layout.xaxis.range[1] > 200
    assert list(drawn(figure, "chosen").x) == [200.0]


def test_scales_can_be_chosen() -> None:
    figure = front_figure(tables.points(FRONT), NONE, View(log_x=True, log_y=False), Marks())
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "linear")


def test_the_chosen_trial_has_its_interval() -> None:
    marks = Marks(chosen=1, intervals={"itl_p99_s": (0.015, 0.03)})
    chosen = drawn(front_figure(tables.points(FRONT), NONE, View(), marks), "chosen")
    assert chosen.error_x.array[0] == pytest.approx(10.0)
    assert chosen.error_x.arrayminus[0] == pytest.approx(5.0)
    assert chosen.error_y.array is None


def test_default_and_recommendation_are_named() -> None:
    marks = Marks(default=0, recommended=1, compared=(2, 3))
    figure = front_figure(tables.points(FRONT), NONE, View(), marks)
    assert {"engine default", "recommended"} <= {a.text for a in figure.layout.annotations}
    assert list(drawn(figure, "compared").x) == [50.0, 60.0]
    same = front_figure(tables.points(FRONT), NONE, View(), Marks(default=1, recommended=1))
    assert "engine default, recommended" in {a.text for a in same.layout.annotations}


def test_what_was_seen_is_joined_to_its_prediction_with_the_error() -> None:
    figure = front_figure(tables.points(FRONT), pair(), View(), Marks())
    seen = drawn(figure, "predicted to measured")
    assert list(seen.x) == [20.0, 25.0] and list(seen.y) == [400.0, 500.0]
    assert "ITL p99 25 ms, predicted 20 (-20 %)" in seen.hovertemplate
    assert [row[0] for row in seen.customdata] == [1, 1]


def test_what_was_seen_needs_both_axes() -> None:
    budget = next(
        m for m in measures_of(tables.points(FRONT)) if m.column.startswith(tables.SETTING)
    )
    figure = front_figure(tables.points(FRONT), pair(), View(x=budget), Marks())
    assert "predicted to measured" not in {trace.name for trace in figure.data}
    lost = pair(**{"seen.ttft_p99_s": np.nan})
    figure = front_figure(tables.points(FRONT), lost, View(), Marks())
    assert "predicted to measured" not in {trace.name for trace in figure.data}


def test_the_third_measure_is_colour_and_size() -> None:
    front = drawn(front_figure(tables.points(FRONT), NONE, View(shade=GOODPUT), Marks()), "front")
    assert list(front.marker.color) == [2.0, 1.0]
    assert front.marker.size[0] > front.marker.size[1]
    assert front.marker.colorbar.title.text == "goodput, requests/s"
    plain = drawn(front_figure(tables.points(FRONT), NONE, View(shade=None), Marks()), "front")
    assert isinstance(plain.marker.color, str)


def test_goodput_per_gpu_of_fleets_can_be_an_axis() -> None:
    fleets = [point(0, 0.1, 0.02, "on the front", goodput=8.0), point(1, 0.2, 0.01, goodput=2.0)]
    fleets = [p | {"settings": plan(4, max_num_seqs=p["number"])} for p in fleets]
    figure = front_figure(tables.points(fleets), NONE, View(y=PER_GPU), Marks())
    assert figure.layout.yaxis.title.text == "goodput per GPU, requests/s"
    assert list(drawn(figure, "front").y) == [2.0]
    assert "fleet %{customdata[5]}" in drawn(figure, "front").hovertemplate


def test_the_line_joins_what_no_other_beats_in_both() -> None:
    trials = tables.points(FRONT)
    assert boundary(trials, ITL, TTFT)["number"].tolist() == [1, 2]
    assert boundary(trials, ITL, GOODPUT)["number"].tolist() == [1]
    budget = a_setting(trials)
    assert boundary(trials, budget, ITL).empty


def test_limits_of_classes_are_named() -> None:
    limits = {"chat": {"itl_p99_s": 0.05}, "batch": {"itl_p99_s": 0.1}, "mail": {}}
    assert slo_lines(ITL, limits) == [("SLO of chat", 50.0), ("SLO of batch", 100.0)]
    assert slo_lines(TTFT, limits) == []
    assert slo_lines(ITL, {"default": {"itl_p99_s": 0.05}}) == [("SLO", 50.0)]


def test_a_front_of_one_point_and_trials_without_figures() -> None:
    one = front_figure(tables.points(FRONT[1:2]), NONE, View(limits=SLO), Marks(chosen=1))
    low, high = one.layout.xaxis.range
    assert low < high and num_drawn(one) == 1
    none = [point(0, None, None, "infeasible"), point(1, None, None, "infeasible")]
    assert num_drawn(front_figure(tables.points(none), NONE, View(), Marks(chosen=0))) == 2


def test_of_very_many_trials_marks_that_cannot_be_told_apart_are_drawn_once() -> None:
    rng = np.random.default_rng(0)
    many = [point(n, t, i) for n, (t, i) in enumerate(rng.uniform(0.1, 0.4, (4000, 2)))]
    many += [point(4000 + n, 0.1, 0.1, "on the front") for n in range(3)]
    many += [point(5000, 90.0, 90.0, "infeasible")]
    trials = tables.points(many)
    near = front_figure(trials, NONE, View(log_x=False, log_y=False), Marks())
    assert 2000 < num_drawn(near) < 3600
    assert len(drawn(near, "front").x) == 3
    assert "misses an SLO" not in {trace.name for trace in near.data}
    far = front_figure(trials, NONE, View(everything=True), Marks())
    assert list(drawn(far, "misses an SLO").x) == [90_000.0]
