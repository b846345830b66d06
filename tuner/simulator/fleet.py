"""A fleet: aggregated replicas, or a prefill and a decode pool, or some of each, and a router."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from profiler.errors import SimulationError
from profiler.outcomes import Outcomes, Status
from profiler.traffic.trace import Trace
from tuner.simulator.pool_build import BoolArray, Link, Pool
from tuner.simulator.pool_gather import ReplicaUse
from tuner.simulator.pools import simulate_pools
from tuner.simulator.router import ROUND_ROBIN, Router
from tuner.simulator.run import simulate
from tuner.simulator.state import FloatArray


@dataclass(frozen=True)
class Fleet:
    """What serves the traffic. Give `aggregated`, or `prefill`, `decode` and `link`, or all."""

    aggregated: tuple[Pool, ...] = ()
    """pools of replicas that do both phases; with the rule "prompt-length" the first one is for
    short prompts, and the others, or `prefill`, for long ones"""
    prefill: Pool | None = None
    decode: Pool | None = None
    link: Link | None = None
    kv_bytes_per_token: float = 0.0
    """what the link moves per prompt token, bytes (`transfer_bytes_per_token`)"""
    router: Router = field(default_factory=Router)

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Every pool: the aggregated ones, prefill, decode."""
        return (*self.aggregated, *(p for p in (self.prefill, self.decode) if p is not None))

    @property
    def num_gpus(self) -> int:
        return sum(pool.num_replicas * pool.num_gpus for pool in self.pools)


@dataclass(frozen=True)
class FleetSimulation:
    """Result of one simulation of a fleet; N requests of the trace."""

    outcomes: Outcomes
    replica: FloatArray
    """(N,) first replica of each request, numbered over the aggregated pools, then prefill; NaN for
    a rejected one"""
    prefill_s: FloatArray
    """(N,) when its prefill replica made its token, seconds; NaN for none"""
    load_start_s: FloatArray
    """(N,) when its decode replica started to load the KV, seconds; NaN for none"""
    load_end_s: FloatArray
    """(N,) when the load was over, seconds; NaN for none"""
    loaded_tokens: FloatArray
    """(N,) prompt tokens that were not in the decode replica's own cache; NaN for none"""
    aggregated: tuple[ReplicaUse, ...]
    prefill: tuple[ReplicaUse, ...]
    decode: tuple[ReplicaUse, ...]
    simulation_s: float
    """seconds of the whole run"""


def simulate_fleet(
    trace: Trace,
    fleet: Fleet,
    *,
    itl_limit_s: FloatArray | None = None,
    seed: int | None = 0,
    fails: BoolArray | None = None,
) -> FleetSimulation:
    """Replay `trace` through `fleet`. See `pools.simulate_pools` for the options and errors."""
    if fleet.router != Router():
        raise SimulationError(f"only {ROUND_ROBIN} yet")
    if fleet.prefill is None or fleet.decode is None or fleet.link is None:
        return _aggregated(trace, fleet, itl_limit_s, seed)
    if fleet.aggregated:
        raise SimulationError("no mixed fleets yet")
    pools = simulate_pools(
        trace,
        fleet.prefill,
        fleet.decode,
        fleet.link,
        kv_bytes_per_token=fleet.kv_bytes_per_token,
        itl_limit_s=itl_limit_s,
        seed=seed,
        fails=fails,
    )
    return FleetSimulation(
        pools.outcomes,
        np.full(trace.num_requests, np.nan),
        pools.prefill_s,
        pools.load_start_s,
        pools.load_end_s,
        pools.loaded_tokens,
        (),
        pools.prefill,
        pools.decode,
        pools.simulation_s,
    )


def _aggregated(
    trace: Trace, fleet: Fleet, itl_limit_s: FloatArray | None, seed: int | None
) -> FleetSimulation:
    (pool,) = fleet.aggregated
    n = trace.num_requests
    parts = [np.arange(i, n, pool.num_replicas) for i in range(pool.num_replicas)]
    runs = [
        simulate(
            replace(trace.take(at), arrival_s=trace.arrival_s[at]),
            pool.config,
            pool.model,
            num_kv_blocks=pool.num_kv_blocks,
            itl_limit_s=itl_limit_s,
            seed=None if seed is None else seed + i,
        )
        for i, at in enumerate(parts)
    ]
    at = np.concatenate(parts)
    order = np.argsort(at)
    outs = [run.outcomes for run in runs]

    names: tuple[str, ...] = (
        "arrival_s",
        "first_token_s",
        "finish_s",
        "prompt_tokens",
        "output_tokens",
    )
    names += ("status", "request_class", "num_slow_gaps")
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(o, name) for o in outs])[order] for name in names
    }
    outcomes = replace(
        outs[0],
        **columns,
        gap_s=np.concatenate([o.gap_s for o in outs]),
        gap_weight=np.concatenate([o.gap_weight for o in outs]),
    )
    replica = np.empty(n)
    for i, mine in enumerate(parts):
        replica[mine] = i
    replica[outcomes.status == Status.REJECTED] = np.nan
    none = np.full(n, np.nan)
    uses = tuple(
        ReplicaUse(at.size, r.num_steps, r.num_preemptions, r.cached_tokens, 0.0)
        for at, r in zip(parts, runs, strict=True)
    )
    spent = sum(run.simulation_s for run in runs)
    return FleetSimulation(outcomes, replica, none, none, none, none, uses, (), (), spent)
