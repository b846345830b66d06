"""The front in a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dashboard.report.front import section
from dashboard.report.section import Reported
from tests.dashboard.made_runs import copy_of
from tuner.results import RunFolder


def silent(done: int, total: int) -> None:
    assert done <= total


def test_the_section_has_the_lead_the_figures_and_the_tables(
    finished_run: Path, tmp_path: Path
) -> None:
    folder = RunFolder(copy_of(finished_run, tmp_path / "run"))
    made = section(Reported(folder, folder.load_results(), "recommended"), silent)
    assert made is not None
    assert made.text.startswith("Deploy candidate-") and len(made.figures) == 2
    assert [caption for caption, _ in made.tables] == [
        "Predicted figures",
        "Predicted and measured, of the replayed requests",
        "What differs from the engine default",
        "What each difference buys",
    ]
    for figure in made.figures:
        assert any("trace" in (a.text or "") for a in figure.layout.annotations)


def test_another_point_is_named_and_a_run_without_predictions_has_no_section(
    finished_run: Path, tmp_path: Path
) -> None:
    folder = RunFolder(copy_of(finished_run, tmp_path / "run"))
    results = folder.load_results()
    made = section(Reported(folder, results, "0"), silent)
    assert made is not None and "This report is about Trial 0" in made.text
    assert len(made.figures) == 1
    assert section(Reported(folder, replace(results, front=[]), "recommended"), silent) is None
