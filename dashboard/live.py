"""Trials of a run that is still searching, read beside the pages.

Optuna takes about a second for 1,500 trials, so a page never waits: it gets what was last read, and
a thread reads again when the database has changed, at most every `_EVERY_S` seconds and at most an
eighth of the time.
"""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from dashboard import tables
from profiler.errors import ResultsError
from tuner.search.database import load_trials
from tuner.search.outcome import points_of
from tuner.whole_files import changed_ns

_EVERY_S = 3.0
_REST = 7.0
"""seconds of rest after each second of reading"""


@dataclass(frozen=True)
class Found:
    """What a search has found so far."""

    trials: pd.DataFrame
    """the predicted ones, as `tables.points` makes them"""
    finished: int
    """trials, the refused ones included"""
    met: int
    """that are predicted to meet the SLOs"""
    refused: int


@dataclass
class _Reader:
    """What is known of one database."""

    found: Found | None = None
    seen: int = -1
    """time of the file when it was last read, nanoseconds"""
    next_s: float = 0.0
    reading: Future[None] | None = None


_lock = threading.Lock()
_readers: dict[Path, _Reader] = {}
_thread = ThreadPoolExecutor(1, thread_name_prefix="live")


def so_far(database: Path, patience_s: float = 0.0) -> Found | None:
    """The trials in `database` as last read; None before there are any. Has them read again when
    it is time, and waits at most `patience_s` for that."""
    with _lock:
        reader = _readers.setdefault(database, _Reader())
        idle = reader.reading is None or reader.reading.done()
        changed = changed_ns(database)
        if idle and changed not in (0, reader.seen) and time.monotonic() >= reader.next_s:
            reader.reading = _thread.submit(_read, database, reader, changed)
    if reader.reading is not None and patience_s > 0:
        with contextlib.suppress(TimeoutError):
            reader.reading.result(timeout=patience_s)
    return reader.found


def _read(database: Path, reader: _Reader, changed: int) -> None:
    """Read all trials; a database that is being begun has none yet."""
    begun = time.monotonic()
    try:
        trials = load_trials(database)
    except ResultsError:
        trials = []
    took = time.monotonic() - begun
    if trials:
        refused = sum(trial.refused is not None for trial in trials)
        met = sum(trial.feasible for trial in trials)
        reader.found = Found(tables.points(points_of(trials)), len(trials), met, refused)
    reader.seen = changed
    reader.next_s = time.monotonic() + max(_EVERY_S, _REST * took)
