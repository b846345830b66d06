"""What the deployed configuration gives on new traffic, what is reachable, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from profiler.collect.silicon import is_predicted
from profiler.engine_config import EngineConfig
from profiler.engines.base import Progress
from profiler.traffic.trace import Trace
from tuner.candidate import Evidence
from tuner.metrics import Metrics
from tuner.results import Results
from tuner.search.database import IN_MEMORY
from tuner.search.kept import KeptRun
from tuner.search.objective import Problem, not_sampled
from tuner.search.optimize import SearchOptions, search
from tuner.search.pareto import rank
from tuner.search.settings import resolve

TRIALS = 32
"""configurations that the short search tries, the engine default and the earlier front included"""


@dataclass(frozen=True)
class Cost:
    """Engine time of a new study, seconds, from what the kept one took."""

    profile_s: float
    """as long as the kept profile took; 0 when it can be used again"""
    replays_s: float
    """as long as the kept replays took"""
    num_replays: int

    @property
    def minutes(self) -> float:
        return (self.profile_s + self.replays_s) / 60

    @property
    def how(self) -> str:
        """How it was computed, in words."""
        if not self.num_replays and not self.profile_s:
            return "nothing is measured: the kept run was predicted"
        first = "the kept profile is used again"
        if self.profile_s:
            first = f"{self.profile_s:.0f} s of profiling as in the kept run"
        replays = f"{self.num_replays} replays of {self.replays_s:.0f} s in all"
        return f"{first}, {replays}; without starting engines"


@dataclass(frozen=True)
class Price:
    """What changing the configuration is worth on the new traffic; all predicted."""

    deployed: Metrics
    """over the study's windows of the new traffic"""
    best: Metrics
    """of the best configuration found: by the study's own ranking if it meets the SLOs, else the
    one with the highest goodput; also over windows"""
    settings: dict[str, Any]
    """of that configuration"""
    share: float
    """goodput of the deployed one over that of the best, on the traffic itself; at most 1"""
    trials: int
    cost: Cost

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "share_of_reachable_goodput": self.share,
            "trials": self.trials,
            "deployed": self.deployed.to_dict(),
            "best": self.best.to_dict(),
            "best_settings": self.settings,
            "cost": {**asdict(self.cost), "minutes": self.cost.minutes, "how": self.cost.how},
        }


def price(
    run: KeptRun, problem: Problem, progress: Progress, *, profile_again: bool, trials: int = TRIALS
) -> Price:
    """Simulate the deployed configuration and search around it.

    Parameters
    ----------
    run
        The finished study.
    problem
        The study's, on the new traffic.
    progress
        Of the search.
    profile_again
        Whether the kept profile does not hold any more.
    trials
        Configurations to try: the deployed one and the earlier front first.

    Raises KnobError, SimulationError.
    """
    results = run.results
    deployed = EngineConfig.from_settings(results.recommended.settings)
    alone = replace(problem, windows=1, first=starting_points(results))
    options = SearchOptions(trials, 1, run.study.search.seed)
    found = search(alone, IN_MEMORY, options, progress)
    tried = [(t.settings, t.metrics) for t in found if t.metrics is not None]
    own = alone.evaluate(deployed)
    tried.append((deployed.settings(), own))
    settings, reachable = tried[best_of([metrics for _, metrics in tried])]
    return Price(
        deployed=problem.evaluate(deployed),
        best=problem.evaluate(EngineConfig.from_settings(settings)),
        settings=settings,
        share=_share(own.goodput_rps, reachable.goodput_rps),
        trials=len(found),
        cost=cost_of(run, profile_again=profile_again),
    )


def best_of(metrics: Sequence[Metrics]) -> int:
    """Index of the best by `rank` if it meets the SLOs, else of the highest goodput."""
    first = rank(metrics)[0]
    if metrics[first].meets_slo:
        return first
    return max(range(len(metrics)), key=lambda i: metrics[i].goodput_rps)


def _share(own: float, reachable: float) -> float:
    return min(1.0, own / reachable) if reachable > 0 else 1.0


def starting_points(results: Results) -> tuple[dict[str, Any], ...]:
    """Settings that a new search should try first: the recommended, the confirmed, the front's."""
    best = sorted(
        (p for p in results.front if p["on_front"]), key=lambda p: p["goodput_rps"], reverse=True
    )
    confirmed = [c.settings for c in (results.recommended, *results.candidates)]
    return (*confirmed, *(p["settings"] for p in best[:_MOST_POINTS]))


_MOST_POINTS = 8


def outside_sampled(run: KeptRun, trace: Trace) -> list[str]:
    """What the deployed configuration may reach on `trace`, and did not on the study's traffic,
    that the latency model was not sampled for; in words."""
    model, resolved = run.measured.model, EngineConfig.from_settings(run.measured.facts["resolved"])
    full = resolve(EngineConfig.from_settings(run.results.recommended.settings), resolved)
    known = not_sampled(model, full, run.trace)
    return [text for text in not_sampled(model, full, trace) if text not in known]


def cost_of(run: KeptRun, *, profile_again: bool) -> Cost:
    """Engine time of a new study; see `Cost`."""
    results, facts = run.results, run.measured.facts
    needed = profile_again and not is_predicted(facts)
    taken = float(facts.get("elapsed_s", facts.get("budget_s", 0.0))) if needed else 0.0
    if results.evidence is Evidence.PREDICTED:
        return Cost(taken, 0.0, 0)
    measured = [c.measured for c in results.candidates if c.measured is not None]
    return Cost(
        profile_s=taken,
        replays_s=sum(float(m["duration_s"]) for m in measured),
        num_replays=sum(len(c.replays) for c in results.candidates),
    )
