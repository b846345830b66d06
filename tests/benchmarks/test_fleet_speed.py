"""Simulated requests per second of fleets of 16 replicas on one core. Run by `make bench`; prints,
and asserts only that everyone was served."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.latency.base import load_latency_model
from profiler.outcomes import Status
from profiler.traffic.trace import Trace
from tuner.simulator import Fleet, Link, Pool, Router, simulate_fleet
from tuner.simulator.fleet import plan_fleet
from tuner.simulator.fleet_arrays import SLOTS
from tuner.simulator.fleet_build import Room, build_fleet

REQUESTS, REPLICAS, RUNS = 20_000, 16, 5
CONFIG = EngineConfig(
    max_num_batched_tokens=2048,
    max_num_seqs=256,
    max_model_len=32768,
    block_size=16,
    enable_prefix_caching=False,
)
POOL = Pool(CONFIG, load_latency_model("example-8b"), 55_000, REPLICAS)
HALF = dataclasses.replace(POOL, num_replicas=REPLICAS // 2)
CONSUMER = dataclasses.replace(HALF, kv_role="kv_consumer")
LINK = Link(1e-4, 20e9)
LEAST = Router("least-requests", "least-requests")
KV_BYTES = 131_072.0
FLEETS = {
    "16 aggregated, in turn": Fleet((POOL,)),
    "16 aggregated, least requests": Fleet((POOL,), router=LEAST),
    "8 prefill and 8 decode, in turn": Fleet((), HALF, CONSUMER, LINK, KV_BYTES),
    "8 prefill and 8 decode, least requests": Fleet((), HALF, CONSUMER, LINK, KV_BYTES, LEAST),
}


def traffic(num_requests: int) -> Trace:
    """As much as 16 replicas bear: lengths like those of conversations, Poisson arrivals."""
    rng = np.random.default_rng(1)
    return Trace(
        np.cumsum(rng.exponential(1 / 80.0, num_requests)),
        np.clip(rng.lognormal(6.6, 0.9, num_requests), 10, 14_000).astype(np.int64),
        np.clip(rng.lognormal(5.1, 0.7, num_requests), 1, 1_500).astype(np.int64),
    )


@pytest.mark.bench
@pytest.mark.parametrize("name", FLEETS)
def test_fleets(name: str) -> None:
    fleet, trace = FLEETS[name], traffic(REQUESTS)
    spent = []
    for _ in range(RUNS + 1):
        started = time.process_time()
        result = simulate_fleet(trace, fleet, itl_limit_s=np.array([0.05]))
        spent.append(time.process_time() - started)
    best, uses = min(spent[1:]), result.aggregated + result.prefill + result.decode
    built = build_fleet(plan_fleet(trace, fleet, None, 0, None), Room())
    num_slots = int(built.arrays.at[-1, SLOTS])
    print(
        f"\n{name}, {REQUESTS:,} requests at {trace.rate_rps:.0f}/s: {best:.2f} CPU s (least of "
        f"{RUNS}), {REQUESTS / best:,.0f} requests/s, {sum(u.num_steps for u in uses):,} steps, "
        f"{num_slots:,} slots"
    )
    assert (result.outcomes.status == Status.FINISHED).all()
