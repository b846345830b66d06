"""Random fleets and traffic for them."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from profiler.latency.base import load_latency_model
from profiler.traffic.trace import Trace
from tuner.simulator import Fleet, Link, Pool, Router
from tuner.simulator.difftest.cases import random_case

JITTERED = load_latency_model("example-8b")
KINDS = ("aggregated", "split", "mixed")


@dataclasses.dataclass(frozen=True)
class DrawnFleet:
    trace: Trace
    fleet: Fleet
    fails: npt.NDArray[np.bool_]


def draw_pool(rng: np.random.Generator, trace: Trace, role: str = "kv_both") -> Pool:
    """Settings of one random case, with room for the longest request of another."""
    case = random_case(int(rng.integers(0, 400)), speculative=False)
    config = dataclasses.replace(case.config, max_model_len=4096)
    if config.enable_chunked_prefill is False:
        config = dataclasses.replace(config, enable_chunked_prefill=True)
    longest = int((trace.prompt_tokens + trace.output_tokens).max())
    blocks = 1 + -(-longest // (config.block_size or 1)) + int(rng.integers(0, 30))
    policy = str(rng.choice(["fail", "recompute"]))
    return Pool(config, JITTERED, blocks, int(rng.integers(1, 4)), 1, role, policy)


def draw_fleet(seed: int, kind: str, rule: str, decode_rule: str) -> DrawnFleet:
    """Traffic and settings of random cases."""
    rng = np.random.default_rng(seed)
    trace = random_case(seed, speculative=False).trace
    n = trace.num_requests
    if rng.random() < 0.5:  # some at once, some in time to meet what is under way
        arrival_s = np.sort(rng.choice(np.array([0.0, 0.01, 0.1, 0.3, 0.5]), n))
        trace = dataclasses.replace(trace, arrival_s=arrival_s)
    trace = dataclasses.replace(trace, priority=rng.integers(0, 3, n))
    aggregated = tuple(draw_pool(rng, trace) for _ in range(0 if kind == "split" else 2))
    router = Router(
        rule,
        decode_rule,
        short_tokens=int(np.median(trace.prompt_tokens)),
        reserved_share=float(rng.choice([0.1, 0.5])),
        guard_requests=int(rng.choice([1, 4])),
        guard_ratio=float(rng.choice([1.1, 2.0])),
        seed=seed,
    )
    fails = rng.random(n) < rng.choice([0.0, 0.3])
    if kind == "aggregated":
        return DrawnFleet(trace, Fleet(aggregated, router=router), fails)
    prefill, decode = draw_pool(rng, trace), draw_pool(rng, trace, "kv_consumer")
    if rule == "priority":
        prefill = dataclasses.replace(prefill, num_replicas=3)
    link = Link(float(rng.choice([1e-4, 1e-2])), float(rng.choice([1e5, 1e7])), bool(seed % 2))
    return DrawnFleet(trace, Fleet(aggregated, prefill, decode, link, 1000.0, router), fails)
