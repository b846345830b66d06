"""Uploaded files are gone when the job has ended."""

from __future__ import annotations

import signal
import subprocess
import sys
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

    def submitted(job: work.Job) -> Future[dict[str, Any]]:
        known.append((job, Future()))
        return known[-1][1]

    monkeypatch.setattr(work, "_submitted", submitted)
    monkeypatch.setattr(work, "_running", {})
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


def test_a_result_that_is_no_longer_in_memory_is_computed_from_its_file_again(
    finished_run: Path,
    begun: list[tuple[work.Job, Future[dict[str, Any]]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work, "_MOST_KEPT", 1)
    for content in (b"one", b"two", b"three", b"one"):
        job = passing.job_on(content, "reading", traffic_drift, str(finished_run), Newer(None))
        assert (job.folder / passing.FILE).read_bytes() == content
        begun[-1][1].set_result({})
    assert len(begun) == 4


def test_files_go_when_a_signal_ends_the_server() -> None:
    code = (
        "import os, signal; from dashboard import server; from dashboard.uploads import passing\n"
        "(passing.folder() / 'x').write_text('secret'); print(passing.folder(), flush=True)\n"
        "server._end_on_signals(); signal.raise_signal(signal.SIGTERM)"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert done.returncode == -signal.SIGTERM
    assert not Path(done.stdout.strip()).exists()
