"""Many cases, and what to say about them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from tuner.simulator.difftest.cases import Case, random_case
from tuner.simulator.difftest.compare import MakeScheduler, compare
from tuner.simulator.difftest.shrink import describe_case, shrink


class Found(NamedTuple):
    """The answer of a search."""

    differs: bool
    text: str


def search_differences(make: MakeScheduler, seeds: Iterable[int]) -> Found:
    """Compare case after case with the scheduler of `make`, until one differs.

    Parameters
    ----------
    make
        Settings and number of KV blocks to the other scheduler.
    seeds
        Numbers of the cases.
    """
    started = time.perf_counter()
    cases = steps = preemptions = drafts = accepted = 0
    for seed in seeds:
        case = random_case(seed)
        difference, result = compare(case, make)
        if difference is not None:
            return Found(True, describe_difference(seed, case, make))
        cases += 1
        steps += result.num_steps
        preemptions += result.num_preemptions
        drafts += result.num_drafts
        accepted += result.num_accepted
    spent = time.perf_counter() - started
    return Found(
        False,
        f"{cases:,} cases, {steps:,} steps, {preemptions:,} preemptions, {accepted:,} accepted of "
        f"{drafts:,} draft tokens: identical ({spent:.0f} s)",
    )


def describe_difference(seed: int, case: Case, make: MakeScheduler) -> str:
    """A case that differs, shrunk, with its first different step."""
    small = shrink(case, lambda smaller: compare(smaller, make)[0] is not None)
    difference, _ = compare(small, make)
    return f"case {seed} differs; shrunk to\n{describe_case(small)}\n{difference}"
