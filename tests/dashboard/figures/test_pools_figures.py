"""Figures of pools hold what the frames say, and say it without colour, too."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import pytest

from dashboard.derive.fleet_frames import best_kinds, best_of, trial_fleets
from dashboard.figures import style
from dashboard.figures.pools import (
    kinds_figure,
    progress_figure,
    ratio_map,
    shares_figure,
    short,
)
from tests.dashboard.made_fleets import fleet_results, split

TRIALS = trial_fleets(fleet_results())
CELLS = best_of(TRIALS[TRIALS["mode"] == "disaggregated"], ["prefill", "decode"], fewest=False)


def _heat(figure: go.Figure) -> Any:
    return next(trace for trace in figure.data if trace.type == "heatmap")


def test_a_cell_per_pair_that_was_tried() -> None:
    heat = _heat(ratio_map(CELLS, fewest=False, chosen={}))
    assert (list(heat.x), list(heat.y)) == (["1", "2"], ["2", "3"])
    assert [list(row) for row in heat.z] == [[None, 0.25], [1.0, None]]
    assert [list(row) for row in heat.text] == [["", "0.25<br>✕"], ["1", ""]]
    assert "trial 3" in heat.customdata[1][0] and "meets the SLOs" in heat.customdata[1][0]


def test_the_point_looked_at_and_the_recommended_are_marked() -> None:
    heat = _heat(ratio_map(CELLS, fewest=False, chosen=split(2, 2)))
    assert heat.text[0][1] == "0.25<br>◆✕"
    cells = CELLS.assign(recommended=True)
    assert _heat(ratio_map(cells, fewest=False, chosen={})).text[1][0] == "1<br>★"


def test_for_the_fewest_gpus_cells_show_gpus() -> None:
    heat = _heat(ratio_map(CELLS, fewest=True, chosen={}))
    assert heat.z[1][0] == 4
    assert heat.reversescale


@pytest.mark.parametrize(
    ("value", "text"), [(13.96, "14"), (0.447, "0.45"), (0.011, "<0.1"), (0, "0")]
)
def test_short(value: float, text: str) -> None:
    assert short(value) == text


def test_kinds_differ_by_symbol_and_the_recommended_one_has_a_star() -> None:
    figure = kinds_figure(best_kinds(TRIALS, fewest=False))
    met, missed = figure.data
    assert (met.marker.symbol, missed.marker.symbol) == ("circle", "x")
    assert list(met.x) == [1.0, 2.0]
    assert met.y[1] == "★ aggregated 4 x 1 GPU"
    assert list(missed.y) == ["engine default,<br>aggregated 4 x 1 GPU"]


def test_shares_are_of_the_pools_mean() -> None:
    figure = shares_figure(
        {"prefill": {"requests": [1, 3], "tokens": [5, 5]}, "decode": {"requests": [0, 0]}}
    )
    assert [list(trace.y) for trace in figure.data] == [[50.0, 150.0], [100.0, 100.0]]
    assert figure.data[0].marker.symbol != figure.data[1].marker.symbol


@pytest.mark.parametrize(("end_s", "unit"), [(90.0, "seconds"), (3600.0, "minutes")])
def test_progress_over_time_has_a_panel_a_pool(end_s: float, unit: str) -> None:
    one = {"mean": [0.5, 1.5], "least": [0, 1], "most": [1, 2]}
    use = {"time_s": [0.0, end_s], "pools": {"prefill": one, "decode": one}}
    figure = style.finish(progress_figure(use), "source")
    assert unit in figure.layout.xaxis2.title.text
    lines = {trace.name: trace.line.dash for trace in figure.data if "mean" in (trace.name or "")}
    assert set(lines) == {"prefill, mean", "decode, mean"}
    assert len(set(lines.values())) == 2, "told apart without colour"
    assert figure.data[0].x[-1] == (end_s if unit == "seconds" else 60.0)
