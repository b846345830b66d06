"""Uploaded files are gone when the job has ended."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from dashboard import work
from dashboard.derive.traffic_drift import Newer, traffic_drift
from dashboard.uploads import passing


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[work.Job, Future[dict[str, Any]]]]:
    """Jobs that were begun; the test ends them."""
    known: list[tuple[work.Job, Future[dict[str, Any]]]] = []

    def start(job: work.Job) -> Future[dict[str, Any]]:
        known.append((job, Future()))
        return known[-1][1]

    monkeypatch.setattr(work, "start", start)
    monkeypatch.setattr(passing, "_begun", {})
    return known


def test_a_file_is_there_for_the_job_and_gone_after(
    finished_run: Path, begun: list[tuple[work.Job, Future[dict[str, Any]]]]
) -> None:
    before = sorted(path.name for path in finished_run.rglob("*"))

    def ask() -> work.Job:
        arguments = (str(finished_run), Newer(None))
        return passing.job_on(b"no traffic", "reading", traffic_drift, *arguments)

    job = ask()
    assert (job.folder / passing.FILE).read_bytes() == b"no traffic"
    assert job.folder.stat().st_mode & 0o077 == 0 or job.folder.parent.stat().st_mode & 0o077 == 0
    ((_, future),) = begun
    future.set_result(job.run(lambda done, total: None))
    assert "upload" in future.result()["error"]
    assert not job.folder.exists()
    assert ask() == job and len(begun) == 1 and not job.folder.exists()
    assert sorted(path.name for path in finished_run.rglob("*")) == before


def test_a_job_that_broke_gets_its_file_again(
    finished_run: Path, begun: list[tuple[work.Job, Future[dict[str, Any]]]]
) -> None:
    for _ in range(2):
        job = passing.job_on(b"one", "reading", traffic_drift, str(finished_run), Newer(None))
        assert (job.folder / passing.FILE).exists()
        begun[-1][1].set_exception(RuntimeError("killed"))
        assert not job.folder.exists()
    assert len(begun) == 2


def test_files_of_different_content_are_different_jobs(
    finished_run: Path, begun: list[tuple[work.Job, Future[dict[str, Any]]]]
) -> None:
    for content in (b"one", b"two", b"one"):
        passing.job_on(content, "reading", traffic_drift, str(finished_run), Newer(None))
    (one, _), (two, _) = begun
    assert one.folder != two.folder
