"""What takes longer than a page may: computed once, in a process of its own, and kept with the run.

A job is a function of `dashboard.derive` and plain arguments. Its result, plain JSON, is kept as
`derived/NAME.json` in the run folder until the run's results change; where the folder cannot be
written, in memory.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.engines.base import Progress
from profiler.errors import ResultsError, SimulationError, StallfreeError
from tuner.results import RunFolder
from tuner.search.processes import begin_worker
from tuner.whole_files import changed_ns, read_json, write_json, writing

_TIDY_S = 2.0
VERSION = 1
"""of what works leave; raise it when one of them changes its result"""

Work = Callable[..., dict[str, Any]]
"""`work(folder, *arguments, progress)`: the folder of the run, what the job was given, and what to
call with (done, total)"""


@dataclass(frozen=True)
class Job:
    """Something to be computed from a run."""

    title: str
    """what is being done, for people"""
    work: Work
    """a function of a module, so that another process finds it"""
    folder: Path
    """of the run"""
    arguments: tuple[Any, ...] = ()
    """plain JSON types"""

    @property
    def key(self) -> str:
        """Name of its result: the function and a digest of the arguments."""
        text = json.dumps([VERSION, self.arguments], sort_keys=True, default=str)
        return f"{self.work.__name__}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @property
    def place(self) -> Path:
        return RunFolder(self.folder).derived(self.key)

    def run(self, progress: Progress) -> dict[str, Any]:
        """Compute it, or read what was computed before. Raises what the work raises."""
        if self.place.exists():
            return read_json(self.place)
        stamp = _stamp(self.folder)
        plain = self.work(self.folder, *self.arguments, progress=progress)
        if _stamp(self.folder) == stamp:  # else it is of results that are gone
            self._keep(plain)
        return plain

    def _keep(self, plain: dict[str, Any]) -> None:
        try:
            with writing(self.place):
                self.place.parent.mkdir(exist_ok=True)
                write_json(self.place, plain)
        except ResultsError:
            pass  # a folder that may only be read


_lock = threading.Lock()
_pool: ProcessPoolExecutor | None = None
_running: dict[tuple[Path, str, int], Future[dict[str, Any]]] = {}
_MOST_KEPT = 64
"""results that are kept in memory"""
_seen: Any = None
"""(done, total) of the job that is being computed, shared with the process that does it"""


def start(job: Job) -> Future[dict[str, Any]]:
    """Have `job` computed, unless it is being or was; never waits. One that failed is tried again,
    and what was kept is read here and now: it must not wait behind others."""
    key = _key(job)
    with _lock:
        known = _running.pop(key, None)
        if known is None or _failed(known):
            known = _kept(job) if job.place.exists() else _submitted(job)
        _running[key] = known  # the latest last
        for old in [k for k, f in _running.items() if f.done()][:-_MOST_KEPT]:
            del _running[old]
        return known


def is_known(job: Job) -> bool:
    """Whether `start` would not have it computed, because it is being or was."""
    with _lock:
        known = _running.get(_key(job))
    return known is not None and not _failed(known)


def _key(job: Job) -> tuple[Path, str, int]:
    return job.folder, job.key, _stamp(job.folder)


def _failed(future: Future[dict[str, Any]]) -> bool:
    return future.done() and future.exception() is not None


def _kept(job: Job) -> Future[dict[str, Any]]:
    """What is in the run folder. A damaged file is computed again."""
    future: Future[dict[str, Any]] = Future()
    try:
        future.set_result(read_json(job.place))
    except ResultsError:
        job.place.unlink(missing_ok=True)
        return _submitted(job)
    return future


def _stamp(folder: Path) -> int:
    """Changes when the run's results do."""
    return changed_ns(RunFolder(folder).results_file)


def progress_of() -> tuple[int, int]:
    """(done, total) of the job that is being computed; (0, 0) where it says nothing."""
    return (0, 0) if _seen is None else (int(_seen[0]), int(_seen[1]))


def warm() -> Future[None]:
    """Start the process ahead, so that the first page need not wait for its imports."""
    with _lock:
        return _ready_pool().submit(_import_all)


def stop() -> None:
    """End the process that computes, whatever it is doing; for when the server ends."""
    for process in multiprocessing.active_children():
        process.kill()
    tidy = threading.Thread(target=_let_go, daemon=True)
    tidy.start()
    tidy.join(_TIDY_S)  # whoever is interrupted may hold a lock that this needs


def _let_go() -> None:
    """Give back what the pool shares with its process, which has ended."""
    global _pool, _seen
    if _pool is not None:
        _pool.shutdown(cancel_futures=True)
    _pool = _seen = None


def failure(error: BaseException) -> str:
    """Why a job failed, one line with the way out."""
    if isinstance(error, BrokenProcessPool):
        return "the process that computes was killed (out of memory?); load the page again"
    if isinstance(error, StallfreeError):
        return str(error)
    return f"{type(error).__name__}: {error}; please report this with the study"


def _submitted(job: Job) -> Future[dict[str, Any]]:
    """`job` in the process, or in a new one when the old one broke."""
    global _pool
    try:
        return _ready_pool().submit(_compute, job)
    except BrokenProcessPool:
        _pool = None
        return _ready_pool().submit(_compute, job)


def _ready_pool() -> ProcessPoolExecutor:
    """The pool of one process."""
    global _pool, _seen
    if _pool is None:
        context = multiprocessing.get_context("spawn")
        _seen = context.Array("q", 2)
        _pool = ProcessPoolExecutor(1, mp_context=context, initializer=_begin, initargs=(_seen,))
    return _pool


def _begin(seen: Any) -> None:
    global _seen
    begin_worker()
    _seen = seen


def _import_all() -> None:
    from tuner.search import objective
    from tuner.simulator import is_compiled

    assert objective
    is_compiled()


def _compute(job: Job) -> dict[str, Any]:
    def report(done: int, total: int) -> None:
        _seen[0], _seen[1] = done, total

    report(0, 0)
    try:
        return job.run(report)
    except StallfreeError as error:
        raise SimulationError(str(error)) from None  # its cause may not travel
