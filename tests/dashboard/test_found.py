"""What a study found, in words, for every way that a run can end."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from dashboard import tables
from dashboard.figures.digits import digits
from dashboard.report.section import Reported
from dashboard.report.studies import section
from dashboard.words import found
from dashboard.words.found import sentence
from tuner.candidate import Evidence, Verdict
from tuner.results import Results, RunFolder


@pytest.fixture
def results(finished_run: Path) -> Results:
    """A measured run that recommends its candidate-1, with round figures."""
    known = RunFolder(finished_run).load_results()
    default, chosen = known.candidates[0], known.candidates[1]
    assert default.measured is not None and chosen.measured is not None
    before = default.measured | {
        "goodput_rps": 4.0, "ttft_p99_s": 0.5, "itl_p99_s": 0.08, "meets_slo": False,
    }  # fmt: skip
    after = chosen.measured | {"goodput_rps": 5.0, "ttft_p99_s": 1.25, "itl_p99_s": 0.04}
    settings = {"max_num_batched_tokens": 512, "max_model_len": 4096}
    return replace(
        known,
        verdict=Verdict.MET,
        meets_slo=True,
        misses={},
        default=replace(default, measured=before),
        recommended=replace(chosen, measured=after, settings=settings),
    )


def test_what_to_deploy_and_what_it_gains(results: Results) -> None:
    assert sentence(results) == (
        "Deploy candidate-1 (max_num_batched_tokens 512): it meets the SLOs, measured on the real "
        "engine. Against the engine default, which misses them: goodput 5 instead of 4 requests/s "
        "(+25 %), TTFT p99 1,250 instead of 500 ms (+150 %), ITL p99 40 instead of 80 ms (-50 %)."
    )


def test_the_default_is_kept(results: Results) -> None:
    kept = replace(results, verdict=Verdict.DEFAULT_IS_BEST, recommended=results.default)
    assert sentence(kept) == (
        "Keep the engine default: it meets the SLOs, measured on the real engine, and nothing else "
        "did better: goodput 4 requests/s, TTFT p99 500 ms, ITL p99 80 ms."
    )


def test_nothing_met(results: Results) -> None:
    missed = {"default.ttft_p99_s": 0.25, "chat.itl_p99_s": 1.5}
    nothing = replace(results, verdict=Verdict.NOTHING_MET, meets_slo=False, misses=missed)
    assert sentence(nothing).startswith(
        "Nothing met the SLOs, measured on the real engine; the closest, candidate-1 "
        "(max_num_batched_tokens 512), misses TTFT p99 by 25 %, ITL p99 of chat by 150 %. Against "
        "the engine default: goodput"
    )
    closest = replace(nothing, recommended=results.default)
    assert "the engine default comes closest and misses TTFT p99 by 25 %" in sentence(closest)


@pytest.mark.parametrize("meets", [True, False])
@pytest.mark.parametrize("default", [True, False])
def test_predicted_is_said_first(results: Results, meets: bool, default: bool) -> None:
    predicted = replace(
        results,
        verdict=Verdict.PREDICTED,
        evidence=Evidence.PREDICTED,
        meets_slo=meets,
        misses={} if meets else {"default.itl_p99_s": 0.1},
        recommended=results.default if default else results.recommended,
    )
    text = sentence(predicted)
    assert text.startswith("Predicted only, not measured: ")
    assert ("by 10 %" in text) is not meets
    assert "would" in text and "real engine" not in text


def test_figures_that_do_not_exist(results: Results) -> None:
    assert results.recommended.measured is not None
    after = results.recommended.measured | {"ttft_p99_s": None}
    endless = replace(results, recommended=replace(results.recommended, measured=after))
    assert "TTFT p99 - instead of 500 ms, ITL" in sentence(endless)
    unmeasured = replace(results, default=replace(results.default, measured=None))
    assert found.figures_of(unmeasured)[0] == results.default.predicted
    nothing = replace(unmeasured, recommended=replace(results.recommended, predicted=None))
    assert "goodput - instead of" in sentence(nothing)


def test_figures_of_one_that_was_not_measured_are_not_called_so(results: Results) -> None:
    unmeasured = replace(results, default=replace(results.default, measured=None))
    assert "(predicted of both): goodput" in sentence(unmeasured)
    assert found.source_of_figures(unmeasured) is Evidence.PREDICTED
    assert found.source_of_figures(results) is Evidence.MEASURED


def test_misses_say_what_never_came_and_what_was_not_served() -> None:
    missed = {"default.unserved": 4.0, "chat.unserved": 9.0, "default.ttft_p99_s": math.inf}
    assert found.misses(missed) == (
        "5 % of the requests unserved, 10 % of the requests of chat unserved, "
        "TTFT p99 (it never came)"
    )
    assert found.misses({}) == "an SLO"


def test_figures_of_a_part_of_the_traffic_say_so(results: Results) -> None:
    assert found.searched_part(results, {}) == ""
    fleet = replace(results, fleet={"searched_requests": 6000, "requests": 19366})
    assert found.searched_part(fleet, {}) == " on the busiest 6,000 of 19,366 requests"
    assert found.searched_part(fleet, {"num_requests": 19366}) == ""


def test_digits() -> None:
    shown = [digits(v) for v in (0.012345, 5.678, 123.4, 1234.5, 0.0, None)]
    assert shown == ["0.0123", "5.68", "123", "1,234", "0", "-"]
    assert digits(0.25, 1e3) == "250"


def test_settings_say_what_they_mean(results: Results) -> None:
    frame = found.settings_against_default(results).set_index("setting")
    assert "token budget" in frame.loc["max_num_batched_tokens", "meaning"]
    assert frame.loc["max_num_batched_tokens", "engine default"] == "2,048"


def test_settings_of_a_fleet_are_those_of_its_pools(fleet_place: Path) -> None:
    known = RunFolder(fleet_place / "fleet").load_results()
    flat = found.flat_settings(known.recommended)
    assert flat["GPUs"] == known.recommended.plan.num_gpus
    assert any(name.endswith(".replicas") for name in flat)
    assert any(name.endswith(".max_num_batched_tokens") for name in flat)


def test_readable_figures_are_in_milliseconds() -> None:
    frame = pd.DataFrame(
        {
            "candidate": ["a"],
            "ttft_p99_s": [0.25],
            "itl_p99_s": [None],
            "goodput_rps": [1.23456],
            "ttft_p99_s, 90 %": ["0.2-0.3"],
            "itl_p99_s, 90 %": [""],
        }
    )
    row = found.readable(frame).iloc[0].to_dict()
    assert row == {
        "candidate": "a",
        "TTFT p99, ms": "250",
        "ITL p99, ms": "-",
        "goodput, requests/s": "1.23",
        "TTFT p99, ms (90 %)": "200 to 300",
        "ITL p99, ms (90 %)": "",
    }


def test_the_report_begins_with_the_same(finished_run: Path) -> None:
    folder = RunFolder(finished_run)
    known = folder.load_results()
    made = section(Reported(folder, known, "recommended"), lambda done, total: None)
    assert made.text.startswith(sentence(known))
    captions = [caption for caption, _ in made.tables]
    assert captions[0] == "Figures" and captions[-1] == "Provenance"
    pd.testing.assert_frame_equal(made.tables[0][1], found.readable(tables.confirmed(known)))
