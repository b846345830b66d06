"""A run opened again, and points of it simulated, in the process that computes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from dashboard.derive.profiles import require_profiles
from profiler.collect import Profile
from profiler.engine_config import EngineConfig
from profiler.errors import ResultsError, StudyError
from profiler.outcomes import Outcomes
from profiler.traffic.trace import Trace
from tuner.export.from_results import Pick, picked
from tuner.fleet_plan import plan_of
from tuner.results import Results, RunFolder
from tuner.search.fleet_problem import FleetProblem
from tuner.search.fleet_tune import fleet_problem
from tuner.search.kept import KeptRun
from tuner.search.objective import Problem
from tuner.search.progress import SilentUi
from tuner.simulator import Simulation
from tuner.study import load_study

DEFAULT, RECOMMENDED = "engine default", "recommended"

Points = dict[str, dict[str, Any]]
"""name -> settings, of a fleet its plan; plain JSON"""


def points_of(results: Results, chosen: Pick, compared: Sequence[int] = ()) -> Points:
    """The chosen point first, then the engine default, then those to compare with; none twice.

    Trials that the run does not have are left out.
    """
    found = {name_of(results, chosen): chosen.candidate.settings}
    if results.default.settings not in found.values():
        found[DEFAULT] = results.default.settings
    for number in compared:
        try:
            settings = picked(results, str(number)).candidate.settings
        except StudyError:
            continue
        if settings not in found.values():
            found[f"trial {number}"] = settings
    return found


def name_of(results: Results, chosen: Pick) -> str:
    """What pages call a point."""
    settings = chosen.candidate.settings
    if settings == results.default.settings:
        return DEFAULT
    if settings == results.recommended.settings:
        return RECOMMENDED
    return next(
        (f"trial {p['number']}" for p in results.front if p["settings"] == settings),
        chosen.candidate.label,
    )


def opened(folder: Path) -> KeptRun:
    """The run in `folder`, of a fleet too. Raises what its parts raise."""
    return _opened(folder, _changed(folder))


def problem_of(folder: Path) -> Problem | FleetProblem:
    """What its search evaluated. Raises what `build_problem` and `fleet_problem` raise."""
    return _problem(folder, _changed(folder))


def fleet_of(folder: Path) -> FleetProblem:
    """The same of a run of fleets. Raises `ResultsError` for one of a single engine."""
    problem = problem_of(folder)
    if isinstance(problem, Problem):
        raise ResultsError(f"{folder} is a run of one engine; it has no pools")
    return problem


def simulated(folder: Path, settings: dict[str, Any]) -> Simulation:
    """One engine with `settings` on the run's traffic, with its timeline; deterministic."""
    return _simulated(folder, _changed(folder), json.dumps(settings, sort_keys=True))


def outcomes_of(folder: Path, settings: dict[str, Any]) -> Outcomes:
    """The same of an engine or of a fleet, requests alone."""
    problem = problem_of(folder)
    if isinstance(problem, Problem):
        return simulated(folder, settings).outcomes
    plan = plan_of(settings)
    assert plan is not None  # a point of a run of fleets
    return problem.simulate(plan).outcomes


def _changed(folder: Path) -> int:
    return RunFolder(folder).results_file.stat().st_mtime_ns


@lru_cache(maxsize=2)
def _opened(folder: Path, changed: int) -> KeptRun:
    del changed
    run = RunFolder(folder)
    study = load_study(run.study_file, run.base)
    return KeptRun(study, run, Trace.load(run.trace), Profile.load(run.profile), run.profile)


@lru_cache(maxsize=2)
def _problem(folder: Path, changed: int) -> Problem | FleetProblem:
    run = _opened(folder, changed)
    if run.study.fleet is None:
        return run.problem()
    require_profiles(run)
    return fleet_problem(run.study, run.folder, run.trace, run.measured, SilentUi())


@lru_cache(maxsize=4)
def _simulated(folder: Path, changed: int, settings: str) -> Simulation:
    problem = _problem(folder, changed)
    assert isinstance(problem, Problem)  # the caller looked
    config = EngineConfig.from_settings(json.loads(settings))
    return problem.simulate(config, timeline=True)
