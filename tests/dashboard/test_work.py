"""Jobs: computed once, in another process, kept with the run, and failures said."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from dashboard import work
from dashboard.work import Job
from profiler.engines.base import Progress
from profiler.errors import SimulationError
from tuner.results import RunFolder


def whose(folder: Path, word: str, *, progress: Progress) -> dict[str, Any]:
    """Says which process did it, and leaves a mark for each time."""
    progress(1, 2)
    marks = folder / "marks"
    marks.write_text(marks.read_text() + word if marks.exists() else word)
    return {"word": word, "process": os.getpid()}


def fails(folder: Path, *, progress: Progress) -> dict[str, Any]:
    raise SimulationError(f"cannot do {folder.name}; do something else")


def changes_results(folder: Path, *, progress: Progress) -> dict[str, Any]:
    os.utime(folder / "results.json", (1, 1))
    return {"of": "results that are gone"}


@pytest.fixture
def run(finished_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished_run, tmp_path / "run"))


def test_computed_once_elsewhere_and_kept(run: Path) -> None:
    job = Job("asking", whose, run, ("a",))
    first = work.start(job).result(60)
    assert first["word"] == "a" and first["process"] != os.getpid()
    assert work.start(job).result(60) == first
    assert work.start(Job("asking", whose, run, ("b",))).result(60)["word"] == "b"
    assert (run / "marks").read_text() == "ab"
    assert json.loads(job.place.read_text()) == first


def test_what_is_kept_is_read_without_the_process(run: Path) -> None:
    job = Job("asking", whose, run, ("kept",))
    job.place.parent.mkdir(exist_ok=True)
    job.place.write_text('{"word": "from the file"}')
    future = work.start(job)
    assert future.done() and future.result() == {"word": "from the file"}


def test_a_damaged_result_is_computed_again(run: Path) -> None:
    job = Job("asking", whose, run, ("damaged",))
    job.place.parent.mkdir(exist_ok=True)
    job.place.write_text('{"word": ')
    assert work.start(job).result(60)["word"] == "damaged"


def test_results_that_change_take_what_was_derived_with_them(run: Path) -> None:
    job = Job("asking", whose, run, ("old",))
    work.start(job).result(60)
    folder = RunFolder(run)
    folder.save_results(folder.load_results())
    assert not job.place.exists()
    gone = Job("asking", changes_results, run)
    assert work.start(gone).result(60) == {"of": "results that are gone"}
    assert not gone.place.exists()


def test_a_failure_is_said_in_one_line_and_tried_again(run: Path) -> None:
    job = Job("failing", fails, run)
    first = work.start(job)
    assert work.failure(first.exception(60)) == "cannot do run; do something else"
    assert work.start(job) is not first
    assert "please report" in work.failure(ValueError("x"))


def test_the_process_is_started_again_when_it_was_killed(run: Path) -> None:
    pid = work.start(Job("asking", whose, run, ("one",))).result(60)["process"]
    os.kill(pid, 9)
    died = work.start(Job("asking", whose, run, ("two",)))
    error = died.exception(60)
    if error is not None:
        assert "was killed" in work.failure(error)
    assert work.start(Job("asking", whose, run, ("three",))).result(60)["process"] != pid
