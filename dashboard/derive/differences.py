"""What each difference between a trial and the engine default buys, by simulating without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic

from dashboard.derive.points import opened, problem_of
from profiler.engine_config import EngineConfig
from profiler.engines.base import Progress
from tuner.fleet_plan import FleetPlan, PoolSetup
from tuner.search.fleet_problem import FleetProblem, shortened
from tuner.search.objective import REFUSED, Problem
from tuner.search.searchable import Choice
from tuner.search.settings import resolve

FIGURES = ("ttft_p99_s", "itl_p99_s", "goodput_rps")
_SPLIT = (
    "the engine default has no such pools: what the split buys cannot be told apart from the "
    "settings of its pools"
)


@dataclass(frozen=True)
class _Difference(Generic[Choice]):
    """One difference, and the two choices that show what it does."""

    name: str
    default: Any
    chosen: Any
    without: Choice | None
    """what was chosen, with this taken back to the default"""
    alone: Choice | None
    """the default with this alone; None where that is nothing"""
    why_not: str | None = None
    """why `without` or `alone` is None"""


def differences(folder: Path, settings: dict[str, Any], *, progress: Progress) -> dict[str, Any]:
    """Simulate `settings` with each difference to the engine default taken back, and the default
    with each alone, on the traffic that the search simulated, without further windows.

    Returns
    -------
    `default` and `chosen`: `FIGURES`, None where there is none. `rows`, one per difference: name,
    default, chosen (values), `without` and `alone` (`FIGURES`, or None) and `why_not` (why one of
    these is missing). Raises what loading a run raises.
    """
    problem = problem_of(folder)
    if isinstance(problem, Problem):
        alone = replace(problem, windows=1)
        config = EngineConfig.from_settings(settings)
        return _figures_of(
            lambda one: alone.evaluate(one).to_dict(),
            (alone.default, config),
            _of_engine(alone, config),
            progress,
        )
    section = opened(folder).study.fleet
    assert section is not None  # its problem is one of fleets
    fleets, plan = shortened(problem, section.requests), FleetPlan.from_settings(settings)
    return _figures_of(
        lambda one: fleets.evaluate(one).to_dict(),
        (fleets.default, plan),
        _of_fleet(fleets, plan),
        progress,
    )


def _figures_of(
    evaluate: Callable[[Choice], Mapping[str, Any]],
    ends: tuple[Choice, Choice],
    found: list[_Difference[Choice]],
    progress: Progress,
) -> dict[str, Any]:
    """`differences`, once they are known."""
    done, total = 0, 2 + 2 * len(found)

    def figures(choice: Choice | None) -> tuple[dict[str, Any] | None, str | None]:
        nonlocal done
        done += 1
        progress(done, total)
        if choice is None:
            return None, None
        try:
            metrics = evaluate(choice)
        except REFUSED as error:
            return None, str(error)
        return {name: metrics[name] for name in FIGURES}, None

    default, chosen = (figures(end)[0] for end in ends)
    rows = []
    for one in found:
        (without, refused), (alone, refused_alone) = figures(one.without), figures(one.alone)
        rows.append(
            {
                "name": one.name,
                "default": one.default,
                "chosen": one.chosen,
                "without": without,
                "alone": alone,
                "why_not": one.why_not or refused or refused_alone,
            }
        )
    return {"default": default, "chosen": chosen, "rows": rows}


def _of_engine(problem: Problem, chosen: EngineConfig) -> list[_Difference[EngineConfig]]:
    """The settings that are given and that the engine default resolves to another value."""
    fixed, given = problem.fixed.settings(), chosen.settings()
    resolved = resolve(problem.default, problem.resolved).settings()
    found = []
    for name, value in given.items():
        if resolved.get(name) != value:
            others = {other: v for other, v in given.items() if other != name}
            back = {name: fixed[name]} if name in fixed else {}
            found.append(
                _Difference(
                    name,
                    resolved.get(name),
                    value,
                    EngineConfig.from_settings(others | back),
                    EngineConfig.from_settings(fixed | {name: value}),
                )
            )
    return found


def _of_fleet(problem: FleetProblem, plan: FleetPlan) -> list[_Difference[FleetPlan]]:
    """Mode and split, routing, and the settings of each pool."""
    default = problem.default
    found = [*_of_split(default, plan), *_of_router(default, plan)]
    for pool in plan.pools:
        found += _of_pool(problem, plan, pool)
    return found


def _layout(plan: FleetPlan) -> list[tuple[str, int, int]]:
    return [(pool.role, pool.replicas, pool.tp) for pool in plan.pools]


def _words(plan: FleetPlan) -> str:
    return f"{plan.mode} {plan.ratio}, tp {':'.join(str(pool.tp) for pool in plan.pools)}"


def _of_split(default: FleetPlan, plan: FleetPlan) -> list[_Difference[FleetPlan]]:
    """Replicas and GPUs of the pools, all at once: one pool's GPUs are taken from another's."""
    if _layout(default) == _layout(plan):
        return []
    if default.mode != plan.mode:
        return [_Difference("pools", _words(default), _words(plan), None, None, _SPLIT)]
    without, alone = _with_layout(plan, default), _with_layout(default, plan)
    return [_Difference("pools", _words(default), _words(plan), without, alone)]


def _with_layout(plan: FleetPlan, other: FleetPlan) -> FleetPlan:
    """`plan` with the replicas and GPUs of `other`, which has the same roles."""
    pools = zip(plan.pools, other.pools, strict=True)
    return replace(plan, pools=tuple(replace(b, settings=a.settings) for a, b in pools))


def _of_router(default: FleetPlan, plan: FleetPlan) -> list[_Difference[FleetPlan]]:
    """The rule for the first replica; one for decode replicas is compared where both have one."""
    found = []
    if plan.router != default.router:
        found.append(
            _Difference(
                "router",
                default.router,
                plan.router,
                replace(plan, router=default.router),
                replace(default, router=plan.router),
            )
        )
    rules = (default.decode_router, plan.decode_router)
    if None not in rules and rules[0] != rules[1]:
        without = replace(plan, decode_router=rules[0])
        alone = replace(default, decode_router=rules[1])
        found.append(_Difference("decode_router", *rules, without, alone))
    return found


def _of_pool(
    problem: FleetProblem, plan: FleetPlan, pool: PoolSetup
) -> list[_Difference[FleetPlan]]:
    """The settings of one pool that an engine would resolve to another value."""
    one, default = problem.replica(pool.role, pool.tp), problem.default
    fixed, resolved = one.fixed.settings(), resolve(one.default, one.resolved).settings()
    same = default.pool(pool.role)
    found = []
    for name, value in pool.settings.items():
        if resolved.get(name) == value:
            continue
        others = {other: v for other, v in pool.settings.items() if other != name}
        back = {name: fixed[name]} if name in fixed else {}
        alone = None
        if same is not None:
            alone = _with_settings(default, pool.role, same.settings | {name: value})
        found.append(
            _Difference(
                name if len(plan.pools) == 1 else f"{pool.role}.{name}",
                resolved.get(name),
                value,
                _with_settings(plan, pool.role, others | back),
                alone,
                None if same is not None else "the engine default has no such pool",
            )
        )
    return found


def _with_settings(plan: FleetPlan, role: str, settings: dict[str, Any]) -> FleetPlan:
    pools = (replace(p, settings=settings) if p.role == role else p for p in plan.pools)
    return replace(plan, pools=tuple(pools))
