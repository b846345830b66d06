"""Running queued studies one after another, each in a process of its own.

What the process prints is in the run folder's `worker.log`. A worker holds a file `.worker-N` of
the storage folder, so that others know that there is one (`is_at_work`).
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from profiler.errors import ResultsError, StallfreeError
from tuner.file_lock import is_locked, try_lock
from tuner.results import RunFolder
from tuner.search.run_queue import Waiting, claimed, next_queued
from tuner.search.run_state import Phase, RunState, load_state, save_state
from tuner.whole_files import writing

LOG = "worker.log"
_MOST_WORKERS = 64
_LOOK_S = 0.5


@dataclass(frozen=True)
class Worker:
    """Where to look for studies, and how to run one."""

    root: Path
    command: Sequence[str]
    """arguments of a process that runs the run folder given after them"""
    say: Callable[[str], None]
    """shows people a line"""
    poll_s: float = 2.0
    """seconds between two looks at an empty queue"""

    def run(self, *, once: bool) -> None:
        """Run what is queued, until nothing is (`once`) or until Ctrl-C, which ends the study that
        runs as it does on the command line, and passes through.

        Raises `ResultsError` when the storage folder cannot be written.
        """
        tried: set[Waiting] = set()  # so that one that cannot be run is not tried for ever
        with _at_work(self.root), _interruptible():
            while True:
                waiting = next_queued(self.root, tried)
                if waiting is not None:
                    tried.add(waiting)
                    self._take(waiting.folder)
                elif once:
                    return
                else:
                    time.sleep(self.poll_s)

    def _take(self, folder: RunFolder) -> None:
        """Run the study in `folder`, unless another worker has just taken it."""
        try:
            with claimed(folder) as mine:
                if mine and load_state(folder).phase is Phase.QUEUED:
                    self._run_study(folder)
        except StallfreeError as error:  # the folder was damaged or removed meanwhile
            self.say(f"{folder.path.name}: {error}")

    def _run_study(self, folder: RunFolder) -> None:
        name, path = folder.path.name, folder.path.resolve()
        self.say(f"{name}: starting")
        with writing(folder.path), open(folder.path / LOG, "wb") as log:
            child = subprocess.Popen(
                [*self.command, str(path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches it through us alone, and once
            )
        try:
            self._follow(folder, child)
        except KeyboardInterrupt:
            self.say(f"{name}: stopping")
            _interrupt(child)
            with contextlib.suppress(ResultsError):  # the worker ends, whatever the folder is like
                _settle(folder, Phase.STOPPED, None)
            self.say(f"{name}: {in_words(_state(folder))}")
            raise
        _settle(folder, Phase.FAILED, _reason(folder, child.returncode))
        self.say(f"{name}: {in_words(load_state(folder))}")

    def _follow(self, folder: RunFolder, child: subprocess.Popen[bytes]) -> None:
        """Wait for `child`, saying what it does whenever it begins something else."""
        shown = ""
        while child.poll() is None:
            state = _state(folder)
            if state.phase is Phase.RUNNING and state.stage != shown:
                shown = state.stage
                self.say(f"{folder.path.name}: {shown}")
            try:
                child.wait(_LOOK_S)
            except subprocess.TimeoutExpired:
                continue


def in_words(state: RunState) -> str:
    """A run's end in a few words."""
    return f"{state.phase}: {state.error}" if state.error else str(state.phase)


def _state(folder: RunFolder) -> RunState:
    try:
        return load_state(folder)
    except ResultsError as error:
        return RunState(Phase.FAILED, error=str(error))


def _interrupt(child: subprocess.Popen[bytes]) -> None:
    """End `child` as Ctrl-C does, and wait for it; at once on a second Ctrl-C."""
    child.send_signal(signal.SIGINT)
    try:
        child.wait()
    except KeyboardInterrupt:
        child.kill()
        child.wait()


def _settle(folder: RunFolder, phase: Phase, error: str | None) -> None:
    """Write the end of a run that ended before it wrote a state of its own. Raises
    `ResultsError`."""
    state = load_state(folder)
    if state.phase is Phase.QUEUED:
        save_state(folder, replace(state, phase=phase, error=error, since=None))


def _reason(folder: RunFolder, code: int) -> str:
    """Why a process ended that never began its run: the error it printed, if it did."""
    try:
        lines = (folder.path / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    said = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    how = f"it was ended by signal {-code}" if code < 0 else f"it ended with code {code}"
    return said[-1] if said else f"{how} before the run began; see {folder.path / LOG}"


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C and a polite end (SIGTERM) both interrupt, even in the background of a script, where
    Ctrl-C is ignored."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(each, interrupt) for each in signals]
    try:
        yield
    finally:
        for each, handler in zip(signals, before, strict=True):
            signal.signal(each, handler)


@contextmanager
def _at_work(root: Path) -> Iterator[None]:
    """Be known as a worker of `root`. Raises `ResultsError`."""
    with writing(root):
        root.mkdir(parents=True, exist_ok=True)
        places = (root / f".worker-{number}" for number in itertools.count(1))
        taken = (try_lock(place) for place in itertools.islice(places, _MOST_WORKERS))
        handle = next((handle for handle in taken if handle is not None), None)
    if handle is None:
        raise ResultsError(f"{root} has {_MOST_WORKERS} workers already; end one of them")
    with handle:
        yield


def is_at_work(root: Path) -> bool:
    """Whether a worker looks after `root`."""
    return any(is_locked(place) for place in root.glob(".worker-*"))
