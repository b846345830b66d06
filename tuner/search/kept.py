"""A run as a whole, for what comes after it: its study, traffic, profile and results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from profiler.collect import Profile
from profiler.errors import ResultsError, StudyError
from profiler.traffic.trace import Trace
from tuner.results import Results, RunFolder, find_runs
from tuner.schema import Study
from tuner.search.objective import Problem, build_problem, slo_of
from tuner.study import load_study


@dataclass(frozen=True)
class KeptRun:
    """What a run folder holds. Filled by `load_kept`."""

    study: Study
    folder: RunFolder
    trace: Trace
    measured: Profile
    profile_place: Path
    """where `measured` is"""

    @property
    def results(self) -> Results:
        """The outcome. Raises `ResultsError` when the run has not finished."""
        return self.folder.load_results()

    @property
    def finished(self) -> bool:
        """Whether there is an outcome."""
        return find_runs(self.folder.path) == [self.folder.path]

    def problem(self, trace: Trace | None = None) -> Problem:
        """What the study's search evaluates; on `trace`, which it may not have been made for.

        Requests of `trace` that are too long for the engine are refused in the simulation.
        """
        own = build_problem(self.study, self.trace, self.measured)
        return own if trace is None else replace(own, trace=trace, slo=slo_of(self.study, trace))


def load_kept(target: Path, folder: RunFolder) -> KeptRun:
    """The run in `folder` of the study file `target`, or of the copy in it if that is a folder.

    Raises `ResultsError` when the run has no profile and traffic yet, `StudyError` for a study of
    a fleet.
    """
    given = target.is_file()
    study = load_study(target) if given else load_study(folder.study_file, folder.base)
    if study.fleet is not None:
        raise StudyError(
            f"{target} is a study of a fleet, and this command takes one engine; take `fleet` out "
            "and keep a replica's share of the traffic with traffic.share"
        )
    place = folder.profile
    if study.profile.path is not None and Path(study.profile.path).exists():
        place = Path(study.profile.path)
    if not (place.exists() and folder.trace.exists()):
        raise ResultsError(
            f"{folder.path} holds no profile and traffic yet; run `stallfree tune {target}` first"
        )
    return KeptRun(study, folder, Trace.load(folder.trace), Profile.load(place), place)
