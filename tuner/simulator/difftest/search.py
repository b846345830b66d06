"""Many cases, and what to say about them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from packaging.version import Version

from tuner.simulator.difftest.cases import Case, adapted, random_case
from tuner.simulator.difftest.compare import MakeScheduler, compare
from tuner.simulator.difftest.shrink import describe_case, shrink
from tuner.simulator.image_build import EncoderUse


class Found(NamedTuple):
    """The answer of a search."""

    differs: bool
    text: str


def search_differences(
    make: MakeScheduler,
    seeds: Iterable[int],
    make_case: Callable[[int], Case] = random_case,
    version: Version | None = None,
) -> Found:
    """Compare case after case with the scheduler of `make`, until one differs.

    Parameters
    ----------
    make
        Settings, number of KV blocks and size of the encoder's reserves to the other scheduler.
    seeds
        Numbers of the cases.
    make_case
        Number to case: `random_case` or `random_image_case`.
    version
        Of the other scheduler, where it may be an older engine: cases are then changed to what
        that engine has and is not known to do otherwise.
    """
    started = time.perf_counter()
    cases = steps = preemptions = drafts = accepted = 0
    encoder = [0, 0, 0, 0]
    for seed in seeds:
        case = make_case(seed)
        if version is not None:
            case = adapted(case, version)
        difference, result = compare(case, make)
        if difference is not None:
            return Found(True, describe_difference(seed, case, make))
        cases += 1
        steps += result.num_steps
        preemptions += result.num_preemptions
        drafts += result.num_drafts
        accepted += result.num_accepted
        encoder = [a + b for a, b in zip(encoder, result.encoder, strict=True)]
    spent = time.perf_counter() - started
    return Found(
        False,
        f"{cases:,} cases, {steps:,} steps, {preemptions:,} preemptions, {accepted:,} accepted of "
        f"{drafts:,} draft tokens{images_text(encoder)}: identical ({spent:.0f} s)",
    )


def images_text(encoder: list[int]) -> str:
    """What the encoder did in all cases; nothing where no case has images."""
    use = EncoderUse(*encoder)
    if use.computed_tokens == 0:
        return ""
    return (
        f", {use.computed_tokens:,} image tokens encoded, {use.hits:,} images found encoded, "
        f"{use.evictions:,} evicted, {use.cut_chunks:,} chunks cut at an image"
    )


def describe_difference(seed: int, case: Case, make: MakeScheduler) -> str:
    """A case that differs, shrunk, with its first different step."""
    small = shrink(case, lambda smaller: compare(smaller, make)[0] is not None)
    difference, _ = compare(small, make)
    return f"case {seed} differs; shrunk to\n{describe_case(small)}\n{difference}"
