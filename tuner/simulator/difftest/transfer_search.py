"""Many cases with a KV connector, and what to say about them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable

import numpy as np

from tuner.simulator.difftest.search import Found
from tuner.simulator.difftest.shrink import describe_case, take_requests
from tuner.simulator.difftest.transfer_cases import (
    MakeTransferScheduler,
    TransferCase,
    compare_transfers,
    random_transfer_case,
)
from tuner.simulator.state import NUM_PREEMPTIONS, NUM_STEPS
from tuner.simulator.transfer_arrays import HELD, NUM_STARTED, SENT


def search_transfer_differences(make: MakeTransferScheduler, seeds: Iterable[int]) -> Found:
    """Compare case after case with the scheduler of `make`, until one differs."""
    started = time.perf_counter()
    cases = steps = preemptions = loads = failed = held = 0
    for seed in seeds:
        case = random_transfer_case(seed)
        difference, state = compare_transfers(case, make)
        if difference is not None:
            return Found(True, describe_difference(seed, case, make))
        assert state.transfers is not None
        moves, counts = state.transfers.moves, state.transfers.counts
        cases += 1
        steps += int(state.tally.counts[NUM_STEPS])
        preemptions += int(state.tally.counts[NUM_PREEMPTIONS])
        loads += int(counts[NUM_STARTED])
        failed += int(((moves.fails == 1) & ~np.isnan(moves.start_s)).sum())
        held += int((np.isin(moves.stage, (HELD, SENT))).sum())
    spent = time.perf_counter() - started
    return Found(
        False,
        f"{cases:,} cases, {steps:,} steps, {preemptions:,} preemptions, {loads:,} loads "
        f"({failed:,} failed), {held:,} hand-overs: identical ({spent:.0f} s)",
    )


def describe_difference(seed: int, case: TransferCase, make: MakeTransferScheduler) -> str:
    """A case that differs, cut after the first requests that show it, with its first different
    step."""
    for n in range(1, case.trace.num_requests + 1):
        trace = take_requests(case.trace, np.arange(n))
        small = dataclasses.replace(case, trace=trace, moves=case.moves[:n])
        difference, _ = compare_transfers(small, make)
        if difference is not None:
            break
    return (
        f"case {seed} differs; shrunk to\n{describe_case(small)}\n{small.role}, {small.policy}, "
        f"{small.moves}\n{difference}"
    )
