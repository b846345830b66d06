"""What each difference buys, drawn."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.figures.differences import change, differences_figure, has_bars, height
from dashboard.figures.importance import MOST_SHOWN, importance_figure, importance_words
from dashboard.figures.measures import ITL, TTFT


def figures(ttft_s: float | None, itl_s: float, goodput: float) -> dict[str, Any]:
    return {"ttft_p99_s": ttft_s, "itl_p99_s": itl_s, "goodput_rps": goodput}


FOUND = {
    "default": figures(0.3, 0.10, 2.0),
    "chosen": figures(0.4, 0.02, 6.0),
    "rows": [
        {
            "name": "max_num_batched_tokens",
            "default": 2048,
            "chosen": 256,
            "without": figures(0.3, 0.06, 4.0),
            "alone": figures(None, 0.03, 5.0),
            "why_not": None,
        },
        {
            "name": "pools",
            "default": "aggregated 4",
            "chosen": "disaggregated 2P:2D",
            "without": None,
            "alone": None,
            "why_not": "the engine default has no such pools",
        },
    ],
}


def test_changes_are_from_before_to_after_in_shown_units() -> None:
    row = FOUND["rows"][0]
    assert change(row, FOUND, ITL, ("without", "chosen")) == pytest.approx(-40.0)
    assert change(row, FOUND, ITL, ("default", "alone")) == pytest.approx(-70.0)
    assert change(row, FOUND, TTFT, ("default", "alone")) is None
    assert change(FOUND["rows"][1], FOUND, ITL, ("without", "chosen")) is None


def test_each_figure_has_two_bars_for_each_difference_that_was_simulated() -> None:
    figure = differences_figure(FOUND)
    assert len(figure.data) == 6
    assert [trace.showlegend for trace in figure.data] == [True, True, *4 * [False]]
    assert figure.data[0].x[0] == pytest.approx(-70.0)
    assert list(figure.data[0].y) == ["max_num_<br>batched_tokens"]
    assert has_bars(FOUND) and not has_bars(FOUND | {"rows": FOUND["rows"][1:]})
    assert height(FOUND | {"rows": 2 * FOUND["rows"]}) > height(FOUND)


def test_importance_shows_what_matters_most_and_how_well_it_was_learned() -> None:
    names = [f"s{i}" for i in range(MOST_SHOWN + 2)]
    shares = [{"mean": 0.1 * i, "std": 0.01} for i in range(len(names))]
    found = {
        "settings": names,
        "figures": {"itl_p99_s": {"skill": 0.9, "shares": shares}, "goodput_rps": None},
    }
    figure = importance_figure(found)
    assert [trace.name for trace in figure.data] == ["ITL p99 (R² 0.90)"]
    assert list(figure.data[0].y) == names[::-1][:MOST_SHOWN]
    assert importance_words(found) == f"Decided most: ITL p99 by {names[-1]}."
