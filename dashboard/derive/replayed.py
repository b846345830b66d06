"""Replays that a run kept, and the same requests simulated as those replays ran."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dashboard.derive.points import opened, problem_of
from profiler.engine_config import EngineConfig
from profiler.outcomes import Outcomes
from profiler.traffic.trace import Trace
from tuner.fleet_plan import plan_of
from tuner.saved_replay import SavedReplay
from tuner.search.confirm import Plan, as_replayed, replay_key
from tuner.search.objective import Problem


@dataclass(frozen=True)
class Replayed:
    """One configuration or fleet as it was replayed, and as simulated for the same requests."""

    trace: Trace
    """the replayed requests: the first of the run's traffic"""
    saved: list[SavedReplay]
    """one for each round that is evidence"""
    predicted: list[Outcomes]
    """for each of them, with the settings that the engine resolved, jitter of its own"""


def replays_of(folder: Path, settings: dict[str, Any]) -> Replayed | None:
    """What `folder` holds of the configuration or fleet with these settings; None for nothing."""
    if not (folder / "confirm").exists():
        return None
    run, problem = opened(folder), problem_of(folder)
    trace = run.trace.slice(0.0, run.study.validate_.seconds)
    if isinstance(problem, Problem):
        return _of_engine(folder, settings, trace)
    return _of_fleet(folder, settings, trace)


def _of_engine(folder: Path, settings: dict[str, Any], trace: Trace) -> Replayed | None:
    run, problem = opened(folder), problem_of(folder)
    assert isinstance(problem, Problem)  # the caller looked
    config, study = EngineConfig.from_settings(settings), run.study
    key, rounds = replay_key(config, trace), study.validate_.rounds
    found = [run.folder.load_replay(key, round_) for round_ in range(rounds)]
    saved = [one for one in found if one is not None]
    if not saved:
        return None
    plan = Plan(
        configs={"": config},
        trace=trace,
        slo=problem.slo,
        model=problem.model,
        reference_s=math.nan,
        rounds=rounds,
        seed=study.search.seed,
        acceptance=problem.acceptance,
    )
    first = saved[0].facts
    predicted = [as_replayed(plan, first, trace, plan.seed + r) for r in range(len(saved))]
    return Replayed(trace, saved, predicted)


def _of_fleet(folder: Path, settings: dict[str, Any], trace: Trace) -> Replayed | None:
    from tuner.search.fleet_rounds import FleetRounds  # heavy

    run, problem, plan = opened(folder), problem_of(folder), plan_of(settings)
    assert not isinstance(problem, Problem) and plan is not None  # the caller looked
    rounds = FleetRounds(run.study, replace(problem, trace=trace), {"": plan}, "")
    saved = rounds.rounds.kept(run.folder, "")
    if not saved:
        return None
    first, seed = saved[0].facts, run.study.search.seed
    predicted = [rounds.as_replayed(plan, first, trace, seed + r) for r in range(len(saved))]
    return Replayed(trace, saved, predicted)
