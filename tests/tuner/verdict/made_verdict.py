"""Options whose scores are a formula: flips lie where algebra says.

In a module of its own so that worker processes can import it.
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

from profiler.traffic.trace import Trace
from tuner.fleet_plan import AGGREGATED, DECODE, PREFILL, FleetPlan, PoolSetup
from tuner.verdict.conditions import Conditions
from tuner.verdict.evaluations import Evaluate, Evaluations, Run
from tuner.verdict.options import Option, Score, Side

FLIP_LENGTH = 1.5
"""prompt length factor at which the sides are equal, the link at its own bandwidth"""


def aggregated(replicas: int = 4, budget: int = 2048) -> Option:
    settings = {"max_num_batched_tokens": budget}
    pool = PoolSetup(AGGREGATED, replicas, settings=settings)
    return Option(f"aggregated-{replicas}-{budget}", FleetPlan((pool,), "round-robin"))


def split(prefill: int = 1, decode: int = 3, tp: tuple[int, int] = (1, 1)) -> Option:
    pools = (PoolSetup(PREFILL, prefill, tp[0]), PoolSetup(DECODE, decode, tp[1]))
    return Option(f"split-{prefill}-{decode}", FleetPlan(pools, "round-robin", "round-robin"))


def evaluate(option: Option, where: Conditions) -> Score:
    """Aggregated 1 / (1 + length); split 0.4, less over a slow link; equal at length 1.5.

    A split deployment is best with one prefill replica for each 1.5 of length, an aggregated one
    with a budget of 2048. All of it is capped by the load.
    """
    if option.pools is None:
        budget = option.plan.pools[0].settings["max_num_batched_tokens"]
        goodput = 1 / (1 + where.prompt_length) * (1.0 if budget == 2048 else 0.5)
    else:
        wanted = max(1, round(where.prompt_length / 1.5))
        goodput = 0.4 * min(1.0, 2 * where.link_bandwidth)
        goodput -= 0.05 * abs(option.pools[0].replicas - wanted)
    goodput *= 1 + 0.1 * (where.window % 3)
    return Score(min(goodput, where.load), min(1.0, goodput / where.load), where.load - goodput)


def marked(option: Option, where: Conditions) -> Score:
    """The same with the number of the process that made it where a refusal would be."""
    return replace(evaluate(option, where), refused=str(os.getpid()))


def run_here(evaluate: Evaluate = evaluate) -> Run:
    return lambda jobs, count: [evaluate(*job) for job in jobs]


def evaluations(*options: Option) -> Evaluations:
    return Evaluations(options or (aggregated(), split()), run_here())


def nothing(done: int, total: int) -> None:
    """No progress bar."""


def sides(known: Evaluations, where: Conditions) -> dict[Side, Score]:
    """Best score per side by looking at every option, without `Evaluations`."""
    scores = [(option.side, evaluate(option, where)) for option in known.options]
    return {
        side: max((s for its, s in scores if its is side), key=lambda s: s.goodput) for side in Side
    }


def steady(num: int = 600, rate_rps: float = 10.0, seed: int = 0) -> Trace:
    """Poisson arrivals, log-normal lengths."""
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.exponential(1 / rate_rps, num))
    prompt = np.maximum(1, rng.lognormal(6, 1, num)).astype(np.int64)
    output = np.maximum(1, rng.lognormal(3, 0.5, num)).astype(np.int64)
    return Trace.build(arrival - arrival[0], prompt, output)
