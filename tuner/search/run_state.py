"""What a run is doing, as its folder says: `state.json`, and the request to stop.

A run writes its state as it goes, at most twice a second; whoever looks reads it. A run that says
that it runs but does not hold its folder's lock was killed.

    state.json   phase, part of the work, progress, when, why it failed
    stop         asks the run to stop; it does so as on Ctrl-C, and keeps what is finished

A request is looked for whenever the run reports progress, and in a thread, because nothing is
reported while an engine starts or a kernel compiles: the thread then sends what Ctrl-C sends. An
interrupt can get lost, as Python ignores exceptions in callbacks of weak references (Optuna's
database has them); the next report of progress makes up for it.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from profiler.engines.base import Progress
from profiler.errors import ResultsError, StallfreeError
from tuner.file_lock import is_locked
from tuner.results import RunFolder
from tuner.search.progress import Ui
from tuner.whole_files import read_json, write_json, writing

_EVERY_S = 0.5
_SILENT_S = 1.0


class Phase(StrEnum):
    """Where a run is in its life."""

    QUEUED = "queued"
    """waits for a worker (`stallfree worker`)"""
    RUNNING = "running"
    STOPPED = "stopped"
    """by Ctrl-C or on request; goes on with --resume"""
    KILLED = "killed"
    """it ended without saying so; goes on with --resume"""
    FAILED = "failed"
    FINISHED = "finished"


@dataclass(frozen=True)
class RunState:
    """Filled by the run itself; `KILLED` is never written, but what a reader concludes."""

    phase: Phase
    stage: str = ""
    """what it is doing, in words"""
    done: int = 0
    total: int | None = None
    """of the stage; None where it has no progress"""
    error: str | None = None
    """why it failed, one line"""
    since: str | None = None
    """when the phase began, ISO 8601, UTC"""
    trials: int = 0
    """configurations searched so far"""


_STATE = TypeAdapter(RunState)


def load_state(folder: RunFolder) -> RunState:
    """The state of the run in `folder`. Raises `ResultsError` when its file is damaged."""
    state = _written(folder)
    if state.phase is not Phase.RUNNING or is_held(folder):
        return state
    latest = _written(folder)  # it may have ended between the two looks, and said so
    return replace(latest, phase=Phase.KILLED) if latest.phase is Phase.RUNNING else latest


def _written(folder: RunFolder) -> RunState:
    """What the run said last. Raises `ResultsError`."""
    path = folder.path / "state.json"
    if not path.exists():  # a run of before states were kept, or one that is being begun
        done = folder.results_file.exists()
        return RunState(Phase.FINISHED if done else Phase.KILLED)
    plain = read_json(path)
    try:
        return _STATE.validate_python(plain)
    except ValidationError as error:
        raise ResultsError(
            f"{path} is damaged ({error.errors()[0]['msg']}); remove it and go on with --resume"
        ) from error


def is_held(folder: RunFolder) -> bool:
    """Whether a process has the folder's lock (`RunFolder.lock`)."""
    return is_locked(folder.lock_file)


def save_state(folder: RunFolder, state: RunState) -> None:
    """Keep `state`, in place of an earlier one. Raises `ResultsError`."""
    plain = asdict(replace(state, since=state.since or now()))
    with writing(folder.path):
        write_json(folder.path / "state.json", plain)


def now() -> str:
    """The time, ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _stop_file(folder: RunFolder) -> Path:
    return folder.path / "stop"


def request_stop(folder: RunFolder) -> None:
    """Ask the run in `folder` to stop. Raises `ResultsError`."""
    with writing(folder.path):
        _stop_file(folder).touch()


def forget_stop(folder: RunFolder) -> None:
    """Take the request back. Raises `ResultsError`."""
    with writing(folder.path):
        _stop_file(folder).unlink(missing_ok=True)


@contextmanager
def recorded(folder: RunFolder, ui: Ui) -> Iterator[Ui]:
    """Use the yielded `Ui` in place of `ui`: it also keeps the run's state, and stops the run
    (`KeyboardInterrupt`) where that was asked for. The folder must be held.

    However the run ends, its state says so. A request that is older than the run counts for
    nothing, unless a worker has just taken the run (`tuner.search.run_queue.claimed`).
    """
    if not _just_taken(folder):
        forget_stop(folder)
    stopping = _Stopping(_stop_file(folder))
    known = _RecordedUi(folder, ui, stopping)
    try:
        with stopping.watching():
            yield known
    except KeyboardInterrupt:
        known.end(Phase.STOPPED)
        raise
    except StallfreeError as error:
        known.end(Phase.FAILED, str(error))
        raise
    except BaseException as error:
        known.end(Phase.FAILED, f"{type(error).__name__}: {error}")
        raise
    known.end(Phase.FINISHED)


def _just_taken(folder: RunFolder) -> bool:
    try:
        return load_state(folder).phase is Phase.QUEUED
    except ResultsError:  # about to be written anew
        return False


class _Stopping:
    """Whether a run is to stop, and what makes it."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._asked = threading.Event()
        self._spoke_s = time.monotonic()

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if so. Call it with every report of progress."""
        self._spoke_s = time.monotonic()
        if self._asked.is_set() or self._place.exists():
            self._interrupt()

    def _interrupt(self, *_: Any) -> None:
        self._asked.set()  # whatever is tidied up now is not to be interrupted again
        raise KeyboardInterrupt

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Interrupt the main thread, once, when a stop is asked for and it reports nothing. In
        another thread than the main one, which no signal reaches, only `check` stops a run."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        over = threading.Event()
        thread = threading.Thread(target=self._watch, args=(threading.get_ident(), over))
        thread.daemon = True
        before = signal.signal(signal.SIGINT, self._interrupt)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            signal.signal(signal.SIGINT, before)

    def _watch(self, main: int, over: threading.Event) -> None:
        while not over.wait(_EVERY_S) and not self._asked.is_set():
            silent = time.monotonic() - self._spoke_s > _SILENT_S
            if silent and self._place.exists():
                signal.pthread_kill(main, signal.SIGINT)
                return


@dataclass
class _RecordedUi:
    """`recorded`."""

    folder: RunFolder
    ui: Ui
    stopping: _Stopping
    state: RunState = field(default_factory=lambda: RunState(Phase.RUNNING, since=now()))
    written_s: float = 0.0

    def __post_init__(self) -> None:
        self._keep()

    def stage(self, text: str) -> None:
        self.ui.stage(text)
        self.state = replace(self.state, stage=text, done=0, total=None)
        self._keep()
        self.stopping.check()

    @contextmanager
    def progress(self, text: str) -> Iterator[Progress]:
        with self.ui.progress(text) as show:

            def report(done: int, total: int) -> None:
                show(done, total)
                self._report(text, done, total)

            yield report

    def end(self, phase: Phase, error: str | None = None) -> None:
        """The last state. That it cannot be written must not hide why the run ends."""
        self.state = replace(self.state, phase=phase, error=error, since=None)
        try:
            self._keep()
            forget_stop(self.folder)
        except ResultsError:
            if error is None:
                raise

    def _report(self, text: str, done: int, total: int) -> None:
        changes: dict[str, Any] = {"done": done, "total": total}
        if text.startswith("search"):
            changes["trials"] = done
        self.state = replace(self.state, **changes)
        if time.monotonic() - self.written_s >= _EVERY_S or done == total:
            self._keep()
            self.stopping.check()

    def _keep(self) -> None:
        save_state(self.folder, self.state)
        self.written_s = time.monotonic()
