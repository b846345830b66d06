"""Runs whose profile is made without an engine: what they predict, for they measure nothing."""

from __future__ import annotations

from pathlib import Path

from profiler.collect import Profile
from profiler.collect.silicon import is_predicted, profile_silicon
from profiler.engine_config import EngineConfig
from profiler.errors import StudyError
from tuner.results import Candidate
from tuner.schema import Study
from tuner.search.objective import Problem, not_sampled
from tuner.search.pareto import Trial, pick
from tuner.search.progress import Ui
from tuner.search.settings import resolve


def require_engine(study: Study) -> None:
    """Raise `StudyError` when the study's profile was made without an engine."""
    path = study.profile.path
    if study.profile.silicon or (path and is_predicted(Profile.load(Path(path)).facts)):
        raise StudyError(
            "profile: it was made from published measurements, so there is nothing to confirm "
            "against; profile the real engine (profile.budget_s) and tune with that"
        )


def predict(study: Study, ui: Ui) -> Profile:
    """A profile from published measurements instead of an engine."""
    assert study.profile.silicon is not None  # the caller looked
    calibrate = study.profile.silicon.calibrate
    measured = None if calibrate is None else Profile.load(Path(calibrate))
    ui.stage("predicting step times from published measurements")
    with ui.progress("tables") as progress:
        return profile_silicon(
            study.silicon_spec(), study.fixed, measured=measured, progress=progress
        )


def predicted_candidates(problem: Problem, trials: list[Trial], top: int) -> list[Candidate]:
    """The engine default, which is the first trial, and the best `top` of the search."""
    chosen = {"default": trials[0]}
    for index, trial in enumerate(pick(trials, top), start=1):
        chosen[f"candidate-{index}"] = trial
    return [_candidate(problem, label, trial) for label, trial in chosen.items()]


def _candidate(problem: Problem, label: str, trial: Trial) -> Candidate:
    full = resolve(EngineConfig.from_settings(trial.settings), problem.resolved)
    return Candidate(
        label=label,
        settings=trial.settings,
        predicted=None if trial.metrics is None else trial.metrics.to_dict(),
        measured=None,
        corrected=None,
        replays=[],
        resolved=full.settings(),
        not_sampled=not_sampled(problem.model, full, problem.trace),
        failure=trial.refused,
    )
