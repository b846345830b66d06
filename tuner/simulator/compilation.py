"""Compiling the kernels, or loading them from the disk cache, ahead of their use."""

from __future__ import annotations

import numpy as np

from profiler.compiled import is_cached
from profiler.engine_config import EngineConfig
from profiler.latency.params import plain_params
from profiler.traffic.trace import Trace
from tuner.simulator.acceptance import build_acceptance, build_drafts
from tuner.simulator.build import build_limits, build_requests
from tuner.simulator.gap_store import GapStore
from tuner.simulator.gaps import add_to_bins
from tuner.simulator.kernel import run_all
from tuner.simulator.memory import Inputs, allocate
from tuner.simulator.prefix_keys import build_prefixes
from tuner.simulator.speculative_kernel import run_speculative


def prepare(speculative: bool = False) -> None:
    """Compile the kernels, or load them from the disk cache.

    `simulate` does it by itself; call it before forking workers, or to show the wait of a first
    compile apart.

    Parameters
    ----------
    speculative
        The kernel for configurations with draft tokens, instead of the one for those without.
    """
    if speculative in _PREPARED:
        return
    none = np.empty(0, dtype=np.int64)
    config = EngineConfig(
        max_num_batched_tokens=2,
        max_num_seqs=1,
        block_size=1,
        num_speculative_tokens=1 if speculative else 0,
    )
    limits = build_limits(config, 2)
    no_trace, nobody = Trace(np.empty(0), none, none), np.zeros(0, dtype=np.bool_)
    requests = build_requests(no_trace, nobody, limits, 0.0, 1)
    prefixes = build_prefixes(no_trace, nobody, requests, limits)
    state = allocate(Inputs(requests, prefixes, None), limits, 2, np.full(1, np.nan))
    if speculative:
        drafts = build_drafts(build_acceptance(no_trace, 1, 0.0, 0), nobody, limits, 1)
        run_speculative(state, drafts, limits, plain_params(), np.ones(1))
    else:
        run_all(state, limits, plain_params(), np.ones(1))
    GapStore(1).drain(state)
    _PREPARED.add(speculative)


def is_compiled(speculative: bool = False) -> bool:
    """Whether `prepare` takes a moment and not half a minute: the kernels are loaded, or in the
    disk cache."""
    run = run_speculative if speculative else run_all
    return speculative in _PREPARED or (is_cached(run) and is_cached(add_to_bins))


_PREPARED: set[bool] = set()
"""which kernels are loaded"""
