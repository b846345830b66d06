"""What a run is doing, as its folder says: `state.json`, and the request to stop.

A run writes its state as it goes, at most twice a second; whoever looks reads it. A run that says
that it runs but does not hold its folder's lock was killed.

    state.json   phase, part of the work, progress, when, why it failed
    stop         asks the run to stop; it does so where Ctrl-C would, and keeps what is finished
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from profiler.engines.base import Progress
from profiler.errors import ResultsError, StallfreeError
from tuner.results import RunFolder
from tuner.search.progress import Ui
from tuner.whole_files import read_json, write_json, writing

_EVERY_S = 0.5


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


def load_state(folder: RunFolder) -> RunState:
    """The state of the run in `folder`. Raises `ResultsError` when its file is damaged."""
    path = folder.path / "state.json"
    if not path.exists():  # a run of before states were kept, or one that is being begun
        done = (folder.path / "results.json").exists()
        return RunState(Phase.FINISHED if done else Phase.KILLED)
    plain = read_json(path)
    try:
        state = RunState(**{**plain, "phase": Phase(plain["phase"])})
    except (KeyError, TypeError, ValueError) as error:
        raise ResultsError(
            f"{path} is damaged ({error!r}); remove it and go on with --resume"
        ) from error
    if state.phase is Phase.RUNNING and not is_held(folder):
        return replace(state, phase=Phase.KILLED)
    return state


def is_held(folder: RunFolder) -> bool:
    """Whether a process has the folder's lock (`RunFolder.lock`)."""
    try:
        with open(folder.lock_file) as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no lock was ever taken, or this place has none
        return False
    return False


def save_state(folder: RunFolder, state: RunState) -> None:
    """Keep `state`, in place of an earlier one. Raises `ResultsError`."""
    plain = asdict(replace(state, since=state.since or now()))
    with writing(folder.path):
        write_json(folder.path / "state.json", plain)


def now() -> str:
    """The time, ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def request_stop(folder: RunFolder) -> None:
    """Ask the run in `folder` to stop. Raises `ResultsError`."""
    with writing(folder.path):
        (folder.path / "stop").touch()


def forget_stop(folder: RunFolder) -> None:
    """Take the request back. Raises `ResultsError`."""
    with writing(folder.path):
        (folder.path / "stop").unlink(missing_ok=True)


@contextmanager
def recorded(folder: RunFolder, ui: Ui) -> Iterator[Ui]:
    """Use the yielded `Ui` in place of `ui`: it also keeps the run's state, and stops the run
    (`KeyboardInterrupt`) where that was asked for. The folder must be held.

    However the run ends, its state says so.
    """
    forget_stop(folder)
    known = _RecordedUi(folder, ui)
    try:
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


@dataclass
class _RecordedUi:
    """`recorded`."""

    folder: RunFolder
    ui: Ui
    state: RunState = field(default_factory=lambda: RunState(Phase.RUNNING, since=now()))
    written_s: float = 0.0

    def __post_init__(self) -> None:
        self._keep()

    def stage(self, text: str) -> None:
        self.ui.stage(text)
        self.state = replace(self.state, stage=text, done=0, total=None)
        self._keep()
        self._stop_if_asked()

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
            self._stop_if_asked()

    def _keep(self) -> None:
        save_state(self.folder, self.state)
        self.written_s = time.monotonic()

    def _stop_if_asked(self) -> None:
        if (self.folder.path / "stop").exists():
            raise KeyboardInterrupt
