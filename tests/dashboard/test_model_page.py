"""The model page."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dashboard.derive.model_frames import (
    calibration_table,
    confirmed_errors,
    facts_table,
    terms_table,
)
from dashboard.report.model import section
from dashboard.report.section import Reported
from dashboard.words import model_words
from profiler.latency.report import HeldOutReport, RegionError
from tests.dashboard.conftest import Look
from tests.tuner.conftest import finished_by_hand
from tuner.candidate import Evidence
from tuner.results import RunFolder

REPORT = HeldOutReport(
    (RegionError("all", "all", 30, 0.05, 0.2), RegionError("mixed", "all", 20, 0.04, 0.1)), ()
)
SILICON: dict[str, Any] = {
    "engine": "vllm",
    "version": "0.32",
    "device": "1 x h200_sxm",
    "silicon": {
        "system": "h200_sxm",
        "package": "published 1.0",
        "data_version": "vllm 0.24.0",
        "sources": {"empirical": 0.1, "silicon": 0.9},
        "terms": {"step_s": 0.0005, "graph_padding": True, "unheard_of": 2.0},
    },
    "calibration": {
        "corrections": [
            {"region": "mixed", "num_steps": 9, "factor": 1.1, "before": 0.1, "after": 0.02}
        ]
    },
}


def test_the_whole_page(look: Look, storage: Path) -> None:
    app = look(storage, "model", run="finished")
    assert not app.exception and not app.error
    assert app.markdown[0].value.startswith("**Steps that it has not seen")
    assert [s.value for s in app.subheader] == [
        "Predicted and measured",
        "Step times",
        "What was sampled",
        "The machine's speed while it was profiled",
        "What the profile is of",
    ]
    assert len(app.get("plotly_chart")) == 6


def test_a_run_that_has_only_its_profile_shows_that(look: Look, storage: Path) -> None:
    app = look(storage, "model", run="stopped")
    assert not app.exception
    assert any("--resume" in warning.value for warning in app.warning)
    assert app.markdown[0].value.startswith("**Steps that it has not seen")
    assert not app.get("plotly_chart")


def test_a_fleet_of_several_kinds_has_a_selector(
    look: Look, fleet_place: Path, tmp_path: Path
) -> None:
    shutil.copytree(fleet_place / "fleet", tmp_path / "fleet")
    other = tmp_path / "fleet" / "replicas" / "h200_sxm-tp2"
    shutil.copytree(tmp_path / "fleet" / "profile", other)
    facts = json.loads((other / "facts.json").read_text())
    facts["facts"] |= {"device": "2 x h200_sxm"}
    (other / "facts.json").write_text(json.dumps(facts))
    app = look(tmp_path, "model")
    assert not app.exception and not app.error
    box = app.main.selectbox[0]
    assert box.options == ["none", "2 x h200_sxm"]
    app = box.select_index(1).run()
    assert not app.exception and not app.error
    assert any("No simulated steps" in m.value for m in app.markdown)
    facts_shown = next(t.value for t in app.dataframe if "fact" in t.value)
    assert "2 x h200_sxm" in facts_shown["value"].tolist()


def test_the_report_has_the_same(storage: Path) -> None:
    folder = RunFolder(storage / "finished")
    found = section(Reported(folder, folder.load_results(), "recommended"), lambda a, b: None)
    assert found is not None
    assert len(found.figures) == 6
    assert "held" not in found.title and "in the median" in found.text
    assert found.tables[0][0] == "Replays"


def test_published_data_is_never_called_measured_here() -> None:
    said = model_words.answer(REPORT, SILICON)
    assert said.startswith("No step was measured here")
    assert "within 5.0 % in the median: mixed 4.0 %" in said
    lines = model_words.of_the_machine(REPORT, SILICON)
    assert "90% measured, 10% estimated" in lines[0]
    assert "stallfree fidelity --silicon" in lines[1]


def test_noise_and_spread_are_said_where_they_are_known() -> None:
    assert model_words.of_the_machine(REPORT, {}) == []
    known = replace(REPORT, step_noise=0.026, sentinel_spread=0.095)
    noise, spread = model_words.of_the_machine(known, {})
    assert "2.6 %" in noise and "9.5 %" in spread


def test_candidates_in_one_sentence() -> None:
    results = finished_by_hand()
    said = model_words.of_candidates(confirmed_errors(results), results)
    assert said.startswith("2 configurations measured") and "TTFT p99 +0 %" in said
    assert "12 of 12 lie in the predicted" in said
    nan = confirmed_errors(results).assign(error_percent=math.nan)
    assert "goodput predicted where there was none" in model_words.of_candidates(nan, results)
    predicted = replace(results, evidence=Evidence.PREDICTED)
    assert "stallfree confirm" in model_words.of_candidates(confirmed_errors(results), predicted)
    nothing = confirmed_errors(replace(results, candidates=[]))
    assert "No candidate has measured figures" in model_words.of_candidates(nothing, results)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"simulated": None, "why": "no steps", "beyond": {}}, "no steps"),
        ({"simulated": {"num_steps": 1200}, "beyond": {}}, "None of the 1,200"),
        (
            {"simulated": {"num_steps": 1200}, "beyond": {"num_decodes": 0.0004}},
            "0.04 % by decodes",
        ),
    ],
)
def test_coverage_in_words(found: dict[str, Any], said: str) -> None:
    assert said in model_words.of_coverage(found)


def test_what_terms_add_is_not_called_an_error() -> None:
    one = {"bias": 0.1, "close": 0.4}
    found = {"predicted_profile": True, "regions": {"mixed": one}}
    assert "Added terms change the GPU time" in model_words.of_residuals(found)
    assert "40% within 10 %" in model_words.of_residuals(found | {"predicted_profile": False})


def test_facts_terms_and_calibration_as_tables() -> None:
    facts = facts_table(SILICON).set_index("fact")["value"]
    assert facts["engine"] == "vllm 0.32"
    assert "KV blocks" not in facts.index, "what is not known has no row"
    terms = terms_table(SILICON).set_index("term")
    assert terms.loc["step_s", "value"] == "0.0005"
    assert terms.loc["graph_padding", "value"] == "True"
    assert terms.loc["unheard_of", "what"] == ""
    assert calibration_table(SILICON)["after, %"].tolist() == [2.0]
