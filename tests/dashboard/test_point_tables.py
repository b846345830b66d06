"""Sentences and tables about one configuration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dashboard import tables
from dashboard.words import point_tables
from dashboard.words.found import sentence
from tests.dashboard.made_points import FRONT
from tuner.candidate import Evidence
from tuner.export.from_results import picked
from tuner.results import Results, RunFolder


@pytest.fixture
def results(finished_run: Path) -> Results:
    return RunFolder(finished_run).load_results()


def test_the_lead_says_what_to_deploy_and_which_trial_it_is(results: Results) -> None:
    answer, more = point_tables.lead(results)
    assert answer == sentence(results)
    assert more.startswith(f"It is trial {tables.number_of(results, results.recommended)} of the")
    assert "SLOs: TTFT p99 2,000 ms, ITL p99 60 ms." in more
    assert more.endswith("%.") and "Predicted chance to meet them" in more


def test_the_lead_without_any_figure(results: Results) -> None:
    bare = replace(results.recommended, predicted=None, measured=None, failure="it would not start")
    text = point_tables.lead(replace(results, recommended=bare))
    assert text == ("No configuration could be predicted: it would not start.", "")


def test_figures_stand_beside_the_defaults() -> None:
    known = FRONT[1] | {"intervals": {"itl_p99_s": [0.015, 0.03]}}
    table = point_tables.figures_table(known, FRONT[0]).set_index("figure")
    assert table.loc["ITL p99, ms"].tolist() == ["20", "15 to 30", "200", "-90 %"]
    assert table.loc["TTFT p99, ms", "90 % interval"] == "-"
    alone = point_tables.figures_table(FRONT[4], None).set_index("figure")
    assert alone.loc["TTFT p99, ms"].tolist() == ["-", "-", "-", "-"]


def test_errors_are_predicted_against_seen(results: Results) -> None:
    seen = {"ttft_p99_s": 0.2, "itl_p99_s": 0.02, "goodput_rps": 4.0}
    predicted = {"ttft_p99_s": 0.3, "itl_p99_s": 0.02, "goodput_rps": 3.0}
    candidate = replace(results.default, measured=seen, predicted=predicted, corrected=None)
    table = point_tables.confirmed_table(candidate, Evidence.REHEARSED).set_index("figure")
    assert table["error"].tolist() == ["+50 %", "0 %", "-25 %"]
    assert list(table) == ["predicted", "rehearsed", "error"]
    bare = replace(candidate, measured=None)
    assert point_tables.confirmed_table(bare, Evidence.PREDICTED).empty


def test_settings_are_those_that_differ_from_the_default(results: Results) -> None:
    table = point_tables.settings_table(results, picked(results)).set_index("setting")
    assert "max_model_len" not in table.index
    assert table.loc["max_num_batched_tokens", "engine default"] == "2048"
    assert "token budget" in table.loc["max_num_batched_tokens", "meaning"]
    assert point_tables.settings_table(results, picked(results, "0")).empty


def test_neighbours_say_what_changes() -> None:
    table = point_tables.neighbours_table(tables.points(FRONT), [2], 1)
    row = table.iloc[0]
    assert row["ITL p99"] == "+150 %" and row["TTFT p99"] == "-50 %" and row["goodput"] == "-50 %"
    assert row["settings"] == "budget 256 to 512"


def test_titles_say_what_a_point_is(results: Results) -> None:
    assert point_tables.title(results, picked(results, "0"), 0).endswith("engine default)")
    assert "recommended" in point_tables.title(results, picked(results), 1)
