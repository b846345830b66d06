"""Cached loading of run folders, through `tuner.results` and its neighbours alone.

What is cached is shared by all sessions and must not be changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard import tables
from dashboard.derive.profiles import profile_place
from dashboard.options import current
from profiler.collect import Profile
from profiler.errors import ResultsError, StallfreeError
from profiler.traffic.trace import Trace
from tuner.results import Results, RunFolder
from tuner.schema import Study
from tuner.search.run_state import Phase, RunState, load_state
from tuner.study import load_study
from tuner.whole_files import changed_ns


@dataclass(frozen=True)
class Run:
    """One run folder under the root, and what it holds; each part is read when it is asked for."""

    name: str
    folder: RunFolder

    @cached_property
    def state(self) -> RunState:
        """What it is doing; a damaged file is a failure with its reason."""
        try:
            return load_state(self.folder)
        except StallfreeError as error:
            return RunState(Phase.FAILED, error=str(error))

    @property
    def has_results(self) -> bool:
        return self.folder.results_file.exists()

    @property
    def results(self) -> Results:
        """The outcome. Raises `ResultsError` when the run has not finished."""
        return _results(self.folder.path, changed_ns(self.folder.results_file))

    @property
    def trials(self) -> pd.DataFrame:
        """Its predicted trials (`tables.trials`). Raises `ResultsError` before it has finished."""
        return _trials(self.folder.path, changed_ns(self.folder.results_file))

    @property
    def study(self) -> Study:
        """The study that it is a run of. Raises `StudyError`."""
        path = self.folder.study_file
        return _study(path, self.folder.base, changed_ns(path))

    @property
    def trace(self) -> Trace:
        """The traffic. Raises `TraceError` when the run has none yet."""
        return _trace(self.folder.trace, changed_ns(self.folder.trace))

    @property
    def profile(self) -> Profile:
        """The profile. Raises `ResultsError` when the run has none yet."""
        return _profile(self.folder.profile, changed_ns(self.folder.profile / "facts.json"))

    def profile_named(self, name: str) -> Profile:
        """One of `derive.profiles.profiles_of`. Raises `ResultsError`."""
        place = profile_place(self.folder, name)
        return _profile(place, changed_ns(place / "facts.json"))


def runs() -> dict[str, Run]:
    """Name -> every run under the root, in any state, by name."""
    root = current().root
    if (root / "study.yaml").exists():
        return {root.resolve().name: Run(root.resolve().name, RunFolder(root))}
    folders = sorted(path.parent for path in root.glob("*/study.yaml"))
    return {path.name: Run(path.name, RunFolder(path)) for path in folders}


def newest(known: Mapping[str, Run]) -> str:
    """Name of the run that finished last; where none has, of the first by name."""
    finished = [name for name, run in known.items() if run.has_results]
    changes = {n: changed_ns(known[n].folder.results_file) for n in finished}
    return max(changes, key=lambda name: changes[name]) if changes else next(iter(known))


def warm() -> None:
    """Read what the first page shows ahead. What cannot be read is left to the page to say."""
    with contextlib.suppress(StallfreeError):
        if known := runs():
            run = known[newest(known)]
            assert run.results and run.trials is not None


def run_named(name: str) -> Run:
    """The run called `name`, one of `runs`: a name is never taken for a path. Raises
    `ResultsError`."""
    known = runs()
    if name not in known:
        raise ResultsError(f"no run {name!r} under {current().root}; choose one of the list")
    return known[name]


@st.cache_resource(max_entries=16, show_spinner=False)
def _results(path: Path, changed: int) -> Results:
    del changed
    return RunFolder(path).load_results()


@st.cache_resource(max_entries=16, show_spinner=False)
def _trials(path: Path, changed: int) -> pd.DataFrame:
    return tables.trials(_results(path, changed))


@st.cache_resource(max_entries=64, show_spinner=False)
def _study(path: Path, base: Path, changed: int) -> Study:
    del changed
    return load_study(path, base)


@st.cache_resource(max_entries=8, show_spinner=False)
def _trace(path: Path, changed: int) -> Trace:
    del changed
    return Trace.load(path)


@st.cache_resource(max_entries=8, show_spinner=False)
def _profile(path: Path, changed: int) -> Profile:
    del changed
    return Profile.load(path)
