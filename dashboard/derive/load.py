"""Load curves of points of a run: figures against the arrival rate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dashboard.derive.points import Points, problem_of
from profiler.engine_config import EngineConfig
from profiler.engines.base import Progress
from profiler.traffic.trace import Trace
from tuner.fleet_plan import FleetPlan, plan_of
from tuner.metrics import Metrics
from tuner.search.fleet_problem import FleetProblem
from tuner.search.load_curve import Load, LoadCurve, curves_of, load_curves
from tuner.search.objective import REFUSED, Problem


def capacity(folder: Path, points: Points, *, progress: Progress) -> dict[str, Any]:
    """The load curve of each of `points`, predicted.

    Returns
    -------
    `rate_rps` of the run's traffic, `curves` (`LoadCurve.to_dict`) by name, and `failures`: name ->
    why there is none.
    """
    problem = problem_of(folder)
    found: dict[str, Any] = {}
    failures: dict[str, str] = {}
    for index, (name, settings) in enumerate(points.items()):

        def report(done: int, total: int, index: int = index) -> None:
            progress(index * total + done, len(points) * total)

        try:
            found[name] = _curve(problem, name, settings, report).to_dict()
        except REFUSED as error:
            failures[name] = str(error)
    return {"rate_rps": problem.trace.rate_rps, "curves": found, "failures": failures}


def _curve(
    problem: Problem | FleetProblem, name: str, settings: dict[str, Any], progress: Progress
) -> LoadCurve:
    if isinstance(problem, Problem):
        config = EngineConfig.from_settings(settings)
        return load_curves(problem, {name: config}, progress)[0]
    plan, fleets = plan_of(settings), problem
    assert plan is not None  # a point of a run of fleets

    def evaluate(plan: FleetPlan, trace: Trace) -> Metrics:
        return replace(fleets, trace=trace, windows=1).evaluate(plan)

    return curves_of(Load(fleets.trace, fleets.slo, evaluate), {name: plan}, progress)[0]
