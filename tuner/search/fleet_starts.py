"""Fleets to try first: P:D by the ratio of the work, sizes by what they could serve."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tuner.fleet_plan import AGGREGATED, DECODE, PREFILL, ROLES, FleetPlan, PoolSetup
from tuner.search.fleet_space import FleetSpace, divide
from tuner.search.fleet_work import Work, request_work
from tuner.search.objective import Problem

Replica = Callable[[str, int], Problem]
"""(role, tp) -> one replica"""

PER_MODE = 5
"""starting points of one mode"""
FULL = 0.7
"""share of the closed-form capacity that a fleet with queues and bursts can be loaded with"""
MIXED_SHARE = 0.25
"""GPUs of the aggregated replicas of a mixed fleet"""
BUDGET = "max_num_batched_tokens"


def starting_plans(space: FleetSpace, replica: Replica) -> list[FleetPlan]:
    """At most `PER_MODE` fleets of each mode, those that could serve the most first."""
    return [plan for mode in space.modes for plan in _best(list(_of_mode(space, replica, mode)))]


@dataclass(frozen=True)
class _Guess:
    plan: FleetPlan
    requests_per_gpu_s: float
    """closed-form capacity"""


def _best(guesses: list[_Guess]) -> list[FleetPlan]:
    ordered = sorted(guesses, key=lambda guess: -guess.requests_per_gpu_s)
    plans: list[FleetPlan] = []
    for guess in ordered:
        if guess.plan not in plans:
            plans.append(guess.plan)
    return plans[:PER_MODE]


def _of_mode(space: FleetSpace, replica: Replica, mode: str) -> Iterator[_Guess]:
    roles = ROLES[mode]
    for sizes_ in itertools.product(*(space.sizes[role] for role in roles)):
        sizes = dict(zip(roles, sizes_, strict=True))
        if sum(sizes_) > space.max_gpus:
            continue
        works = {role: _work(replica(role, tp), role) for role, tp in sizes.items()}
        for num_gpus in _gpu_counts(space, replica(roles[0], sizes[roles[0]]), works, sizes):
            for shares in _shares(works, sizes, num_gpus):
                counts = divide(num_gpus, sizes, shares)
                for budget in _budgets(space, mode):
                    plan = _plan(space, replica, sizes, counts, budget)
                    yield _Guess(plan, _capacity_rps(counts, works) / plan.num_gpus)


def _work(one: Problem, role: str) -> float:
    """Seconds per request of a replica at the engine default."""
    work: Work = request_work(one, one.fixed)
    return {AGGREGATED: work.both_s, PREFILL: work.prefill_s, DECODE: work.decode_s}[role]


def _gpu_counts(
    space: FleetSpace, one: Problem, works: Mapping[str, float], sizes: Mapping[str, int]
) -> list[int]:
    """All GPUs; for the fewest, what the rate needs with some room, and half as many more."""
    if not space.fewest:
        return [space.max_gpus]
    gpu_s = sum(
        works[role] * sizes[role] for role in sizes if len(sizes) == 1 or role != AGGREGATED
    )
    need = one.trace.rate_rps * gpu_s / FULL
    least = sum(sizes.values())
    return sorted({min(space.max_gpus, max(least, math.ceil(k * need))) for k in (1.0, 1.5)})


def _shares(
    works: Mapping[str, float], sizes: Mapping[str, int], num_gpus: int
) -> list[dict[str, float]]:
    """Shares of the GPUs, by role: as the work is, and one prefill replica more or fewer."""
    if PREFILL not in sizes:
        return [{}]
    gpu_s = {role: works[role] * sizes[role] for role in (PREFILL, DECODE)}
    rest = 1.0 - MIXED_SHARE if AGGREGATED in sizes else 1.0
    even = rest * gpu_s[PREFILL] / (gpu_s[PREFILL] + gpu_s[DECODE])
    step = sizes[PREFILL] / num_gpus
    beside = {AGGREGATED: MIXED_SHARE} if AGGREGATED in sizes else {}
    return [{**beside, PREFILL: max(0.0, even + k * step)} for k in (0, -1, 1)]


def _budgets(space: FleetSpace, mode: str) -> list[int | None]:
    """Token budgets of aggregated replicas: the default, the middle of the range, a quarter."""
    axis = space.knobs.get(AGGREGATED, {}).get(BUDGET)
    if mode != AGGREGATED or axis is None:
        return [None]
    if axis.choices is not None:
        numbers = sorted(int(c) for c in axis.choices)
        return [None, numbers[len(numbers) // 2], numbers[len(numbers) // 4]]
    assert axis.low is not None and axis.high is not None  # checked by the study
    low, high = math.log(axis.low), math.log(axis.high)
    return [None, *(round(math.exp(low + part * (high - low))) for part in (0.5, 0.25))]


def _plan(
    space: FleetSpace,
    replica: Replica,
    sizes: Mapping[str, int],
    counts: Mapping[str, int],
    budget: int | None,
) -> FleetPlan:
    pools = []
    for role, tp in sizes.items():
        one = replica(role, tp)
        config = one.fixed if budget is None else one.candidate({BUDGET: budget})
        pools.append(PoolSetup(role, counts[role], tp, space.systems[role], config.settings()))
    router = "least-requests" if "least-requests" in space.routers else space.routers[0]
    rules = space.decode_routers
    decode = None if DECODE not in sizes else (router if router in rules else rules[0])
    return FleetPlan(tuple(pools), router, decode)


def _capacity_rps(counts: Mapping[str, int], works: Mapping[str, float]) -> float:
    """Requests per second that the pools can do; the slower of two phases sets the pace."""
    rates = {role: counts[role] / works[role] for role in counts}
    split = min(rates[PREFILL], rates[DECODE]) if PREFILL in rates else 0.0
    return split + rates.get(AGGREGATED, 0.0)
