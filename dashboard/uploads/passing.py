"""Files that a browser gave, for jobs: on disk only until the job has ended, and nothing of them or
of the job's result is kept in a run folder. Knows no Streamlit."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

from dashboard import work

FILE = "upload"
"""name of the file in the job's folder, whatever the browser called it"""

_lock = threading.Lock()
_root: tempfile.TemporaryDirectory[str] | None = None


def job_on(content: bytes, title: str, function: work.Work, *arguments: Any) -> work.Job:
    """A job that is being or was computed, whose folder holds `content` as `FILE` while it is.

    The function must not raise what a wrong file causes, but return it: a job that failed is begun
    again whenever it is asked for, and would not find the file.
    """
    key = work.Job(title, function, Path(), arguments).key
    name = f"{hashlib.sha256(content).hexdigest()[:32]}-{key}"
    with _lock:
        job = work.Job(title, function, folder() / name, arguments)
        if not work.is_known(job):
            job.folder.mkdir(exist_ok=True)
            (job.folder / FILE).write_bytes(content)
            future = work.start(job)
            future.add_done_callback(lambda _: shutil.rmtree(job.folder, ignore_errors=True))
    return job


def folder() -> Path:
    """Of this server's files, readable by its user alone; goes when the server ends."""
    global _root
    if _root is None:
        _root = tempfile.TemporaryDirectory(prefix="stallfree-uploads-")
    return Path(_root.name)


def forget() -> None:
    """Remove `folder`; for when the server is ended by a signal, after which nothing tidies up."""
    global _root
    if _root is not None:
        _root.cleanup()
    _root = None
