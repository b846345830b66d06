"""Shared prefixes: how much of a prompt an earlier one had, measured and drawn.

The form of the recorded traffic that this describes (Mooncake, Qin et al., FAST 2025): all prompts
begin with the same few blocks, and some go on from an earlier prompt a while later, as the next
turn of a conversation or of an agent does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiler.traffic.checks import FloatArray, IntArray
from profiler.traffic.trace import Trace

_TENTHS = 10


@dataclass(frozen=True)
class Sharing:
    """Statistics of prefixes, in whole blocks."""

    block_tokens: int
    common_blocks: int
    """leading blocks that all prompts have"""
    continued: tuple[float, ...]
    """(10,) share of the requests that go on from an earlier one, by tenth of prompt length"""
    probabilities: tuple[float, ...]
    """(K,) of the two quantile tables, from 0 to 1"""
    share: tuple[float, ...]
    """(K,) of requests that go on: blocks that an earlier prompt had over all whole blocks"""
    age_s: tuple[float, ...]
    """(K,) of requests that go on: seconds since the last prompt with these blocks"""


def measure_sharing(trace: Trace, probabilities: tuple[float, ...]) -> Sharing | None:
    """How the prompts of `trace` share prefixes; None when it does not say."""
    if trace.prefix_offsets is None or trace.prefix_block_tokens is None:
        return None
    whole = trace.prompt_tokens // trace.prefix_block_tokens
    shared, age_s = seen_before(trace, whole)
    some = whole[1:] > 0
    common = int(shared[1:][some].min(initial=np.iinfo(np.int64).max)) if some.any() else 0
    goes_on = shared > common
    order = np.argsort(trace.prompt_tokens, kind="stable")
    tenths = [goes_on[part].mean() for part in np.array_split(order, _TENTHS)]
    share, age = np.zeros(1), np.zeros(1)
    if goes_on.any():
        share, age = shared[goes_on] / whole[goes_on], age_s[goes_on]
    return Sharing(
        block_tokens=trace.prefix_block_tokens,
        common_blocks=common,
        continued=tuple(round(float(x), 4) for x in tenths),
        probabilities=tuple(round(float(p), 4) for p in probabilities),
        share=_quantiles(share, probabilities),
        age_s=_quantiles(age, probabilities),
    )


def seen_before(trace: Trace, whole: IntArray) -> tuple[IntArray, FloatArray]:
    """(N,) leading blocks that an earlier prompt had, and seconds since the last such prompt.

    Parameters
    ----------
    trace
        With prefixes.
    whole
        (N,) leading blocks of each prompt that count.
    """
    assert trace.prefix_hashes is not None and trace.prefix_offsets is not None
    hashes, offsets = trace.prefix_hashes.tolist(), trace.prefix_offsets
    last: dict[int, float] = {}
    shared, age_s = np.zeros_like(whole), np.full(whole.size, np.nan)
    for i, arrival in enumerate(trace.arrival_s.tolist()):
        own = hashes[offsets[i] : offsets[i] + whole[i]]
        shared[i] = next((k for k, h in enumerate(own) if h not in last), len(own))
        if shared[i]:
            age_s[i] = arrival - last[own[shared[i] - 1]]
        last |= dict.fromkeys(own, arrival)
    return shared, age_s


def _quantiles(values: FloatArray, probabilities: tuple[float, ...]) -> tuple[float, ...]:
    found = np.quantile(values, probabilities, method="inverted_cdf")
    return tuple(round(float(v), 4) for v in found)


def draw_prefixes(
    sharing: Sharing,
    arrival_s: FloatArray,
    prompt_tokens: IntArray,
    prompt_rank: FloatArray,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray]:
    """Prefix hashes and offsets of N prompts that share prefixes as `sharing` says.

    A request that goes on takes its leading blocks from the one that came nearest to its age
    before it and is long enough; one whose age reaches back beyond the first arrival finds none.

    Parameters
    ----------
    prompt_rank
        (N,) from 0 to 1, where each prompt lies among those of its table.
    """
    whole = prompt_tokens // sharing.block_tokens
    sizes = -(-prompt_tokens // sharing.block_tokens)
    tenth = np.minimum((prompt_rank * _TENTHS).astype(np.int64), _TENTHS - 1)
    goes_on, share, age = rng.random((3, arrival_s.size))
    goes_on = goes_on < np.array(sharing.continued)[tenth]
    share = np.interp(share, sharing.probabilities, sharing.share)
    since_s = arrival_s - np.interp(age, sharing.probabilities, sharing.age_s)
    wanted = np.where(goes_on, np.rint(share * whole), 0).astype(np.int64)
    common = np.arange(sharing.common_blocks)
    fresh = sharing.common_blocks
    own: list[IntArray] = []
    for i, size in enumerate(sizes):
        head = common[: whole[i]]
        able = np.flatnonzero(whole[:i] >= wanted[i])
        if wanted[i] > head.size and able.size and since_s[i] >= 0.0:
            nearest = able[np.argmin(np.abs(arrival_s[able] - since_s[i]))]
            head = own[nearest][: wanted[i]]
        own.append(np.concatenate([head, np.arange(fresh, fresh + size - head.size)]))
        fresh += size - head.size
    return np.concatenate(own), np.concatenate([[0], np.cumsum(sizes)])
