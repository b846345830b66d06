"""Runs that wait for a worker (`tuner.search.worker`): the run folders whose state is queued.

Whoever takes a run, or changes the state of one that nobody runs, holds its `.claim` meanwhile, so
that two workers never take the same run and a run is not stopped and begun at once.
"""

from __future__ import annotations

import shutil
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from profiler.errors import ResultsError, StallfreeError, StudyError
from tuner.file_lock import is_locked, try_lock
from tuner.results import RunFolder
from tuner.search.run_state import (
    Phase,
    RunState,
    forget_stop,
    load_state,
    request_stop,
    save_state,
)
from tuner.study import parse_study, placed
from tuner.whole_files import writing

RESERVED = ("uploads", "queue", "study.yaml", "results.json")
"""names in a storage folder that are no runs; with one of the last two in it, the folder itself is
taken for a run"""
RESUMABLE = (Phase.STOPPED, Phase.KILLED, Phase.FAILED)


def enqueue(root: Path, study_text: str, base: Path) -> RunFolder:
    """Make the run folder `root`/NAME of a study, queued.

    `base` is where the study's paths start from. Raises `StudyError` as `tuner.study.load_study`,
    `ResultsError` when there is a run of that name or the folder cannot be made.
    """
    from tuner.search.tune import fingerprint  # heavy

    parsed = parse_study(study_text, "the study")
    study = placed(parsed, base.resolve())
    if study.name in RESERVED:
        raise StudyError(f"name: {study.name!r} is no name of a study; give another one")
    if (root / "study.yaml").exists():
        raise ResultsError(f"{root} is a run folder; queue studies in a folder of run folders")
    folder = RunFolder(root / study.name)
    with writing(folder.path):
        try:
            folder.path.mkdir(parents=True)
        except FileExistsError as error:
            raise ResultsError(
                f"there is a run called {study.name} already; give the study another name"
            ) from error
    facts = {"fingerprint": fingerprint(study), "base": str(base.resolve())}
    try:
        folder.begin(study_text, facts, resume=False, fresh=False)
        save_state(folder, RunState(Phase.QUEUED))
    except ResultsError:  # such as a full disk: half a run would keep its name taken
        shutil.rmtree(folder.path, ignore_errors=True)
        raise
    return folder


def resume(folder: RunFolder) -> None:
    """Queue a run that has ended before it had finished. Raises `ResultsError`."""
    with claimed(folder) as mine:
        state = load_state(folder)
        if not mine or state.phase not in RESUMABLE:
            phase = state.phase if mine else "with a worker"
            raise ResultsError(f"{folder.path} is {phase}; only a run that has ended goes on")
        save_state(folder, replace(state, phase=Phase.QUEUED, error=None, since=None))


def stop(folder: RunFolder) -> None:
    """End the run, or take it out of the queue where no worker has it. Raises `ResultsError`."""
    with claimed(folder) as mine:
        if mine and load_state(folder).phase is Phase.QUEUED:
            save_state(folder, RunState(Phase.STOPPED))
        else:
            request_stop(folder)


@contextmanager
def claimed(folder: RunFolder) -> Iterator[bool]:
    """Whether the claim on the run in `folder` is ours, for as long as this lasts.

    With it, earlier requests to stop are forgotten. Raises `ResultsError`.
    """
    with writing(folder.path):
        handle = try_lock(_claim(folder))
    if handle is None:
        yield False
        return
    with handle:
        if load_state(folder).phase is Phase.QUEUED:
            forget_stop(folder)
        yield True


def is_claimed(folder: RunFolder) -> bool:
    """Whether a worker has the run in `folder`."""
    return is_locked(_claim(folder))


def _claim(folder: RunFolder) -> Path:
    return folder.path / ".claim"


class Waiting(NamedTuple):
    """A run in the queue; the one that has waited longest sorts first."""

    since_ns: int
    """when its state was written"""
    folder: RunFolder


def queued(root: Path) -> list[Waiting]:
    """The runs in `root` that wait, in their order; damaged folders are left out."""
    waiting = []
    for path in root.glob("*/state.json"):
        folder = RunFolder(path.parent)
        try:
            if load_state(folder).phase is Phase.QUEUED:
                waiting.append(Waiting(path.stat().st_mtime_ns, folder))
        except (OSError, StallfreeError):
            continue
    return sorted(waiting, key=lambda one: (one.since_ns, one.folder.path))


def next_queued(root: Path, skipped: Container[Waiting] = ()) -> Waiting | None:
    """The first of `queued` that no worker has and that is not to be skipped; None without any."""
    free = (one for one in queued(root) if one not in skipped and not is_claimed(one.folder))
    return next(free, None)
