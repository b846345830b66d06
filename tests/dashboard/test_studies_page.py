"""The studies page: what was found, all studies, the clicked one, comparison."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import streamlit as st

from dashboard import session
from dashboard.views import studies
from dashboard.words.found import sentence
from tests.dashboard.conftest import Look
from tuner.results import RunFolder


def test_the_page_begins_with_what_was_found(look: Look, storage: Path) -> None:
    app = look(storage, run="finished")
    results = RunFolder(storage / "finished").load_results()
    assert app.main.children[1].value == f"**finished:** {sentence(results)}"
    assert [s.value for s in app.subheader] == [
        "Figures",
        "Settings against the engine default",
        "Compare with another study",
        "Provenance",
    ]


def test_every_study_is_in_the_table(look: Look, storage: Path) -> None:
    frame = look(storage, run="finished").dataframe[0].value
    states = dict(zip(frame["study"], frame["state"], strict=True))
    assert states == {name: name for name in ("finished", "queued", "killed", "stopped", "failed")}
    by_study = frame.set_index("study")
    assert "no such model" in by_study.loc["failed", "doing"]
    assert by_study.loc["stopped", "progress"] == pytest.approx(3 / 8)
    assert by_study.loc["finished", "evidence"] == "measured"
    assert by_study.loc["queued", "SLOs"] == "TTFT p99 2,000 ms, ITL p99 60 ms"
    assert by_study.loc["queued", "traffic"] == "like azure-conv-2023"


def test_a_damaged_run_is_a_row_that_says_so(
    look: Look, finished_run: Path, tmp_path: Path
) -> None:
    for name in ("whole", "results", "state", "study"):
        shutil.copytree(finished_run, tmp_path / name)
    (tmp_path / "results" / "results.json").write_text("{")
    (tmp_path / "state" / "state.json").write_text("[]")
    (tmp_path / "study" / "results.json").unlink()
    (tmp_path / "study" / "study.yaml").write_text("name: [")
    app = look(tmp_path, run="whole")
    assert not app.exception
    doing = app.dataframe[0].value.set_index("study")["doing"]
    assert "results.json cannot be read" in doing["results"]
    assert "state.json is damaged" in doing["state"]
    assert "not valid YAML" in doing["study"]


def test_a_click_looks_at_that_study(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test client cannot select a row, so the click's callback is called here."""
    looked: list[str] = []
    state = {"all-studies": st.dataframe, "all-studies-shown": ["a", "b"]}

    class Selected:
        class selection:
            rows = (1,)

    state["all-studies"] = Selected
    monkeypatch.setattr(st, "session_state", state)
    monkeypatch.setattr(session, "look_at", looked.append)
    studies._look_at_clicked()
    assert looked == ["b"]
    assert state["all-studies-clicked"] is True


def test_two_studies_side_by_side(look: Look, finished_run: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(finished_run, tmp_path / name)
    app = look(tmp_path, run="one")
    app.selectbox(key="other-one").set_value("two").run()
    assert not app.exception
    (beside,) = [d.value for d in app.dataframe if "two" in d.value.columns]
    assert list(beside.columns) == ["figure (engine default)", "one", "two"]
    assert (beside["one"] == beside["two"]).all()
    assert beside.iloc[0]["one"] == look(tmp_path).dataframe[0].value.iloc[0].iloc[4]
    assert any(m.value == "The settings agree." for m in app.markdown)
    assert len(app.get("plotly_chart")) == 1


def test_a_fleet_leads_with_its_plan(look: Look, fleet_place: Path) -> None:
    app = look(fleet_place)
    assert "Predicted only, not measured" in app.info[0].value
    frame = app.dataframe[0].value
    assert list(frame["evidence"]) == ["predicted"]
