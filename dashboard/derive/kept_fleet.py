"""The fleet problem of a finished run, from what its folder holds and nothing else."""

from __future__ import annotations

from pathlib import Path

from dashboard.derive.profiles import profile_place, profiles_of
from profiler.collect import Profile
from profiler.errors import ResultsError
from profiler.traffic.trace import Trace
from tuner.results import RunFolder
from tuner.search.fleet_problem import FleetProblem
from tuner.search.fleet_space import FleetSpace
from tuner.search.fleet_tune import fleet_problem
from tuner.search.progress import SilentUi
from tuner.study import load_study


def kept_fleet(path: Path) -> FleetProblem:
    """What the run in `path` searched; nothing is profiled or written.

    Raises `ResultsError` when a profile of a kind of replica is gone, and what loading raises.
    """
    folder = RunFolder(path)
    study = load_study(folder.study_file, folder.base)
    if study.fleet is None:
        raise ResultsError(f"{path} is a run of one engine; it has no pools")
    silicon, known = study.profile.silicon, profiles_of(folder)
    own = ("", 1) if silicon is None else (silicon.system, silicon.tp)
    for system, tp in FleetSpace.of(study).kinds():
        if (system, tp) != own and f"{system}-tp{tp}" not in known:
            raise ResultsError(
                f"{path} lacks the profile of {tp} x {system}; run `stallfree tune {path} --resume`"
            )
    measured = Profile.load(profile_place(folder, "profile"))
    return fleet_problem(study, folder, Trace.load(folder.trace), measured, SilentUi())
