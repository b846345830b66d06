"""Compiling the kernels, or loading them from the disk cache, ahead of their use."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from profiler.compiled import is_cached
from profiler.engine_config import EngineConfig
from profiler.latency.base import load_latency_model
from profiler.latency.params import plain_params
from profiler.traffic.trace import Trace
from tuner.simulator.acceptance import build_acceptance, build_drafts
from tuner.simulator.build import build_limits, build_requests
from tuner.simulator.fleet_build import FleetPlan, Room, build_fleet
from tuner.simulator.fleet_kernel import run_fleet
from tuner.simulator.gap_store import GapStore
from tuner.simulator.gaps import add_to_bins
from tuner.simulator.kernel import run_all
from tuner.simulator.memory import Inputs, allocate
from tuner.simulator.pool_build import AGGREGATED, Pool, Side
from tuner.simulator.prefix_keys import build_prefixes
from tuner.simulator.router import Router
from tuner.simulator.speculative_kernel import run_speculative

ENGINE = "engine"
DRAFTS = "drafts"
FLEET = "fleet"
KERNELS: dict[str, Callable[..., int]] = {
    ENGINE: run_all,
    DRAFTS: run_speculative,
    FLEET: run_fleet,
}


def prepare(speculative: bool = False, fleet: bool = False) -> None:
    """Compile the kernels, or load them from the disk cache.

    `simulate` and `simulate_fleet` do it by themselves; call it before forking workers, or to show
    the wait of a first compile apart.

    Parameters
    ----------
    speculative
        The kernel for configurations with draft tokens, instead of the one for those without.
    fleet
        The kernel for fleets, after the one for a single engine.
    """
    for name in kernels_of(speculative, fleet):
        if name not in _PREPARED:
            _call_empty(name)
            _PREPARED.add(name)


def is_compiled(speculative: bool = False, fleet: bool = False) -> bool:
    """Whether `prepare` takes a moment and not half a minute: the kernels are loaded, or in the
    disk cache."""
    return all(
        name in _PREPARED or (is_cached(KERNELS[name]) and is_cached(add_to_bins))
        for name in kernels_of(speculative, fleet)
    )


def kernels_of(speculative: bool, fleet: bool) -> tuple[str, ...]:
    """Names of the kernels that `prepare` is asked for."""
    if fleet:
        return (ENGINE, FLEET)
    return (DRAFTS,) if speculative else (ENGINE,)


def _call_empty(name: str) -> None:
    """Run a kernel on no requests at all."""
    none = np.empty(0, dtype=np.int64)
    config = EngineConfig(
        max_num_batched_tokens=2,
        max_num_seqs=1,
        max_model_len=2,
        block_size=1,
        num_speculative_tokens=1 if name == DRAFTS else 0,
    )
    no_trace, nobody = Trace(np.empty(0), none, none), np.zeros(0, dtype=np.bool_)
    if name == FLEET:
        pool = Side(Pool(config, load_latency_model("example-8b"), 2), AGGREGATED)
        plan = FleetPlan(no_trace, (pool,), None, Router(), np.full(1, np.nan), None, nobody)
        built = build_fleet(plan, Room())
        run_fleet(built.arrays, built.settings)
        return
    limits = build_limits(config, 2)
    requests = build_requests(no_trace, nobody, limits, 0.0, 1)
    prefixes = build_prefixes(no_trace, nobody, requests, limits)
    state = allocate(Inputs(requests, prefixes, None), limits, 2, np.full(1, np.nan))
    if name == DRAFTS:
        drafts = build_drafts(build_acceptance(no_trace, 1, 0.0, 0), nobody, limits, 1)
        run_speculative(state, drafts, limits, plain_params(), np.ones(1))
    else:
        run_all(state, limits, plain_params(), np.ones(1))
    GapStore(1).drain(state)


_PREPARED: set[str] = set()
"""which kernels are loaded"""
