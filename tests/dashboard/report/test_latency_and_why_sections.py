"""Sections of a report that the Latency and Why pages share their figures with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dashboard.report import latency, why
from dashboard.report.section import Reported, Section
from tuner.results import RunFolder


def silent(done: int, total: int) -> None:
    assert done <= total


def reported(folder: Path, point: str = "recommended") -> Reported:
    run = RunFolder(folder)
    return Reported(run, run.load_results(), point)


@pytest.fixture(scope="module")
def run(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(finished_run, tmp_path_factory.mktemp("sections") / "run"))


def test_latency_of_one_engine(run: Path) -> None:
    section = latency.section(reported(run), silent)
    assert isinstance(section, Section)
    assert len(section.figures) == 6
    assert "meets the SLOs" in section.text
    sources = [f.layout.annotations[-1].text for f in section.figures]
    assert all("run small of" in text for text in sources)
    assert list(section.tables[0][1]["point"].unique()) == ["recommended", "engine default"]


def test_why_of_one_engine(run: Path) -> None:
    section = why.section(reported(run), silent)
    assert section is not None and len(section.figures) == 3
    assert section.text.startswith("This gap of ") and "The first token of request" in section.text


def test_of_a_fleet(fleet_place: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(fleet_place / "fleet", tmp_path / "fleet"))
    section = latency.section(reported(folder), silent)
    assert section is not None and len(section.figures) == 5
    section = why.section(reported(folder), silent)
    assert section is not None and not section.figures
    assert section.text.startswith("The latest first token, of request ")
