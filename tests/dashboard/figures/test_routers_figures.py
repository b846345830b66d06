"""Figures of router rules."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.derive.fleet_frames import rule_quantiles, trial_fleets
from dashboard.figures.routers import effects_figure, rules_figure
from tests.dashboard.made_fleets import fleet_results


def _row(rule: str, **changes: Any) -> dict[str, Any]:
    plain = {
        "part": "first",
        "rule": rule,
        "own": False,
        "refused": None,
        "goodput_rps": 8.0,
        "per_gpu": 2.0,
        "ttft_p99_s": 0.5,
        "itl_p99_s": 0.02,
        "meets_slo": True,
        "intervals": {"goodput_rps": [6.0, 12.0], "ttft_p99_s": [None, 0.9]},
    }
    return plain | changes


ROWS = [
    _row("round-robin", own=True),
    _row("least-tokens", meets_slo=False, ttft_p99_s=None),
    _row("priority", refused="no priorities", ttft_p99_s=None, per_gpu=None),
]


def test_a_dot_per_rule_with_its_interval() -> None:
    figure = effects_figure(ROWS, {"ttft_p99_s": 1.0})
    goodput, ttft, _itl = figure.data[:3]
    assert list(goodput.y) == ["first: least-tokens", "first: round-robin ★"]
    assert list(goodput.error_x.array) == [1.0, 1.0], "12 and 8 requests/s on 4 GPUs"
    assert list(goodput.error_x.arrayminus) == [0.5, 0.5]
    assert list(goodput.marker.symbol) == ["x", "circle"]
    assert (list(ttft.y), list(ttft.x)) == (["first: round-robin ★"], [500.0])
    assert list(ttft.error_x.array) == [0.0], "an end that does not exist"
    assert [shape.x0 for shape in figure.layout.shapes] == [1000.0]


def test_without_limits_there_are_no_lines() -> None:
    figure = effects_figure(ROWS, {})
    assert not figure.layout.shapes
    assert "SLO" not in {trace.name for trace in figure.data}


def test_boxes_of_the_trials_by_rule() -> None:
    quantiles = rule_quantiles(trial_fleets(fleet_results()))
    boxes = rules_figure(quantiles).data
    assert [trace.type for trace in boxes] == ["box"] * 3
    assert list(boxes[0].y) == [
        "split: round-robin / least-requests (3)",
        "aggregated: round-robin (2)",
    ]
    assert boxes[1].median[1] == pytest.approx(150.0), "ms, of 100 and 200"


def test_a_wide_span_has_a_log_axis() -> None:
    rows = [_row("a"), _row("b", ttft_p99_s=50.0)]
    figure = effects_figure(rows, {})
    assert (figure.layout.xaxis.type, figure.layout.xaxis2.type) == ("linear", "log")
