"""Figures of the latency model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dashboard.derive.model_frames import confirmed_errors
from dashboard.figures.model import (
    confirmed_figure,
    coverage_figure,
    errors_figure,
    residual_figure,
    scatter_figure,
    speed_figure,
)
from profiler.latency.report import HeldOutReport, RegionError
from tests.tuner.conftest import finished_by_hand

ROWS = (
    RegionError("all", "all", 30, 0.05, 0.2),
    RegionError("decode-only", "all", 20, 0.04, 0.1),
    RegionError("decode-only", "up to 4 tokens", 10, 0.03, 0.09),
)
ONE = {
    "num_steps": 5000,
    "measured_s": [0.01, 0.02],
    "predicted_s": [0.011, 0.02],
    "tokens": [1, 2],
    "share_percent": [25.0, 75.0],
    "median": 0.05,
    "p95": 0.1,
    "bias": 0.05,
    "close": 0.5,
}
FOUND: dict[str, Any] = {
    "predicted_profile": False,
    "edges_percent": [-10.0, 0.0, 10.0],
    "regions": {"mixed": ONE, "decode-only": ONE},
}


def test_predicted_over_measured_in_ms_with_the_diagonal_and_ten_per_cent() -> None:
    figure = scatter_figure(FOUND)
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    assert [trace.y[0] / trace.x[0] for trace in lines] == pytest.approx([1.0, 1.1, 1 / 1.1])
    points = [trace for trace in figure.data if trace.mode == "markers"]
    assert [trace.name for trace in points] == ["decode-only (5,000)", "mixed (5,000)"]
    assert list(points[0].y) == pytest.approx([11.0, 20.0])
    assert len({trace.marker.symbol for trace in points}) == 2
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    assert "measured" in figure.layout.xaxis.title.text
    published = scatter_figure(FOUND | {"predicted_profile": True})
    assert "published GPU time" in published.layout.xaxis.title.text


def test_residuals_lie_in_the_middle_of_their_bins() -> None:
    figure = residual_figure(FOUND)
    assert list(figure.data[0].x) == [-5.0, 5.0]
    assert list(figure.data[0].y) == [25.0, 75.0]
    assert figure.data[0].line.dash != figure.data[1].line.dash


def test_errors_by_region_and_size_and_the_noise_floor() -> None:
    figure = errors_figure(HeldOutReport(ROWS, (), step_noise=0.02))
    medians = next(trace for trace in figure.data if trace.name == "median")
    assert list(medians.x) == pytest.approx([3.0, 4.0, 5.0])
    assert medians.y[-1] == "all"
    assert [shape.x0 for shape in figure.layout.shapes] == [2.0]
    assert not errors_figure(HeldOutReport(ROWS, ())).layout.shapes


def test_confirmed_figures_tell_within_from_outside_by_symbol() -> None:
    results = finished_by_hand()
    errors = confirmed_errors(results)
    assert set(errors["candidate"]) == {"engine default", "candidate-1, recommended"}
    assert errors["error_percent"].tolist() == pytest.approx([0.0] * len(errors))
    assert errors["within"].all()
    outside = errors.assign(within=[False] + [True] * (len(errors) - 1))
    figure = confirmed_figure(outside, "measured")
    symbols = list(figure.data[0].marker.symbol)
    assert symbols[0].endswith("-open") and not symbols[1].endswith("-open")


def test_figures_that_do_not_exist_are_left_out() -> None:
    results = finished_by_hand()
    best = results.recommended
    assert best.predicted is not None and best.measured is not None and best.corrected is not None
    bare = replace(
        best,
        predicted=best.predicted | {"ttft_p99_s": None, "intervals": {"itl_p50_s": [0.1, None]}},
        corrected=best.corrected | {"goodput_rps": 0.0},
    )
    errors = confirmed_errors(replace(results, candidates=[bare]))
    assert errors["figure"].tolist() == ["TTFT p50", "ITL p50", "ITL p99", "TPOT p99", "goodput"]
    assert errors["within"].tolist() == [None] * 5
    assert errors["error_percent"].isna().tolist() == [False] * 4 + [True], "none was seen"
    assert confirmed_errors(replace(results, candidates=[replace(best, measured=None)])).empty


def test_coverage_draws_no_decodes_at_half_and_may_have_no_simulation() -> None:
    shapes = {"prompt_tokens": [5, 9], "decodes": [0, 3], "context": [0, 70]}
    one = {"num_steps": 2, "decode_only": shapes, "with_chunks": shapes}
    both = coverage_figure({"sampled": one, "simulated": one})
    assert len(both.data) == 4
    assert list(both.data[2].y) == [0.5, 3]
    assert both.data[0].marker.symbol != both.data[1].marker.symbol
    assert len(coverage_figure({"sampled": one, "simulated": None}).data) == 2


def test_speed_has_readings_and_what_was_used() -> None:
    speed = {"reading_s": [0.0], "reading": [0.9], "used_s": [0.0, 1.0], "used": [1.0, 0.9]}
    figure = speed_figure(speed)
    assert [trace.mode for trace in figure.data] == ["markers", "lines"]
    assert "seconds" in figure.layout.xaxis.title.text
