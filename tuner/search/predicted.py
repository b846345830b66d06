"""Candidates of a run whose profile was made without an engine: predicted, never measured."""

from __future__ import annotations

from profiler.engine_config import EngineConfig
from tuner.candidate import Candidate
from tuner.search.objective import Problem, not_sampled
from tuner.search.pareto import Trial, pick
from tuner.search.settings import resolve


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
