"""Two fronts in one figure."""

from __future__ import annotations

import pandas as pd

from dashboard.figures.compare import fronts_figure


def front(itl: list[float | None], ttft: list[float | None]) -> pd.DataFrame:
    rows = {"itl_p99_s": itl, "ttft_p99_s": ttft, "goodput_rps": 1.0, "settings": "x"}
    return pd.DataFrame({"number": range(len(itl)), **rows})


def test_each_front_has_its_own_look_and_its_recommended_trial() -> None:
    fronts = {"a": front([0.03, 0.02], [0.1, 0.2]), "b": front([0.05], [0.3])}
    figure = fronts_figure(fronts, {"a": 1, "b": None})
    a, b = figure.data
    assert list(a.x) == [20.0, 30.0] and list(a.y) == [200.0, 100.0]
    assert list(a.marker.size) == [16, 8] and list(b.marker.size) == [8]
    assert a.marker.symbol != b.marker.symbol and a.line.dash != b.line.dash
    assert figure.layout.xaxis.title.text == "ITL p99, ms"


def test_a_wide_axis_is_logarithmic_and_missing_figures_are_left_out() -> None:
    figure = fronts_figure({"a": front([0.02, 0.03, None], [0.1, 9.0, 1.0])}, {})
    assert figure.layout.yaxis.type == "log" and figure.layout.xaxis.type == "linear"
    assert len(figure.data[0].x) == 2


def test_no_front_at_all() -> None:
    assert len(fronts_figure({"a": front([], [])}, {}).data[0].x) == 0
