"""Options whose scores are a formula: flips lie where algebra says.

In a module of its own so that worker processes can import it.
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

from profiler.engine_config import EngineConfig
from profiler.latency.base import load_latency_model
from profiler.traffic.trace import Trace
from tuner.cli.whatif import SERVER_DEFAULTS
from tuner.fleet_plan import AGGREGATED, DECODE, PREFILL, FleetPlan, PoolSetup
from tuner.metrics import Metrics
from tuner.search.progress import SilentUi
from tuner.simulator import Link, Pool
from tuner.simulator.fleet import Fleet
from tuner.slo import Limits, Slo
from tuner.verdict.bench import Bench
from tuner.verdict.conditions import PROMPT_LENGTH, Conditions
from tuner.verdict.evaluations import Evaluate, Evaluations, Run
from tuner.verdict.judge import Judgement, JudgeSettings, judge
from tuner.verdict.options import Option, Score, Side

MODEL = load_latency_model("example-8b")
SLO = Slo(("default",), (Limits(ttft_p99_s=0.5, itl_p99_s=0.03),))
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


def build(plan: FleetPlan) -> Fleet:
    """An 8B model on each replica; the link of 10 GB/s takes 13 ms per 1,000 tokens."""
    pools = {pool.role: _pool(pool) for pool in plan.pools}
    return Fleet(
        aggregated=tuple(pool for role, pool in pools.items() if role == AGGREGATED),
        prefill=pools.get(PREFILL),
        decode=pools.get(DECODE),
        link=Link(1e-4, 1e10) if DECODE in pools else None,
        kv_bytes_per_token=131_072.0,
    )


def _pool(setup: PoolSetup) -> Pool:
    config = replace(SERVER_DEFAULTS, max_num_batched_tokens=2048, max_model_len=16_384)
    settings = EngineConfig.from_settings(setup.settings)
    return Pool(settings.over(config), MODEL, 20_000, setup.replicas, setup.tp)


class FormulaBench(Bench):
    """Scores by `evaluate`; a regime's prompts are longer or shorter than the whole traffic's."""

    def __call__(self, option: Option, where: Conditions) -> Score:
        if where.piece >= 2:
            prompts = [self.pieces[piece].prompt_tokens.mean() for piece in (where.piece, 0)]
            where = where.at(PROMPT_LENGTH, float(prompts[0] / prompts[1]))
        return evaluate(option, where)

    def metrics(self, option: Option, where: Conditions) -> Metrics:
        """Nothing but the share of good requests."""
        fields = dict.fromkeys(Metrics.__dataclass_fields__, 0)
        for name in ("violations", "classes", "num_windows", "intervals", "chance"):
            del fields[name]
        return replace(Metrics(**fields), slo_attainment=self(option, where).attainment)


def two_regimes() -> Trace:
    """4,000 requests at a steady rate; prompts of the last quarter are ten times as long."""
    first, second = steady(3000, seed=1), steady(1000, seed=2)
    return Trace.build(
        np.concatenate([first.arrival_s, first.duration_s + 0.1 + second.arrival_s]),
        np.concatenate([first.prompt_tokens, 10 * second.prompt_tokens]),
        np.concatenate([first.output_tokens, second.output_tokens]),
    )


RANKED = (aggregated(), split(1, 3), split(2, 2), aggregated(4, 512))
QUICK = JudgeSettings(top=2, requests=300, windows=6, workers=1)


def judged(settings: JudgeSettings = QUICK) -> Judgement:
    bench = FormulaBench((two_regimes(),), SLO, build)
    return judge(RANKED, bench, settings, SilentUi())
