"""Arrival windows: other stretches of traffic like the one that was recorded.

A window is as long as the recorded trace. The first is the trace itself; the others are drawn from
it by the circular block bootstrap (Politis & Romano 1992; moving blocks: Künsch, Annals of
Statistics 17(3), 1989): `NUM_BLOCKS` runs of consecutive requests, each beginning anywhere in the
trace, joined until there are as many requests again. A request takes its lengths, its class and the
gap in front of it along, so that bursts, lulls and what hangs together within a block stay as they
were recorded. What lasts longer than a block, such as a rush hour, is taken apart.

Every window is simulated whole, from an idle engine and with jitter of its own, exactly as the
trace is and as a replay on the real engine begins. Cutting the trace into pieces instead would
start each of them with an empty queue, which flatters TTFT, and the p99 of a piece of a short trace
would rest on a handful of requests. Driving a simulation with resampled input is the direct
bootstrap of Barton & Schruben, "Resampling methods for input modeling" (WSC 2001).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from profiler.traffic.trace import IntArray, Trace

NUM_BLOCKS = 32
"""blocks per window"""
_SEED = 1989
_COPY = np.uint64(0x9E3779B97F4A7C15)
"""an odd constant, so that every copy number changes a hash (Knuth's multiplicative hashing)"""


def draw_windows(trace: Trace, num_windows: int) -> list[Trace]:
    """The windows 1 .. num_windows - 1, drawn from `trace`; always the same ones.

    A request that is drawn again asks for other prefixes than its first copy, as another
    conversation would; prefixes that a block's requests share with each other stay shared.
    """
    return list(each_window(trace, num_windows))


def each_window(trace: Trace, num_windows: int) -> Iterator[Trace]:
    """The windows of `draw_windows` one by one, for those who need many and none twice."""
    rng = np.random.default_rng(_SEED)
    for _ in range(num_windows - 1):
        yield _draw(trace, rng)


def _draw(trace: Trace, rng: np.random.Generator) -> Trace:
    n = trace.num_requests
    length = -(-n // NUM_BLOCKS)
    starts = rng.integers(n, size=-(-n // length))
    index = ((starts[:, None] + np.arange(length)) % n).ravel()[:n]
    gap_s = np.diff(trace.arrival_s, prepend=0.0)
    gap_s[0] = trace.duration_s / max(1, n - 1)  # where the end meets the beginning
    arrival_s = np.cumsum(gap_s[index])
    taken = replace(trace.take(index), arrival_s=arrival_s - arrival_s[0])
    hashes, offsets = taken.prefix_hashes, taken.prefix_offsets
    if hashes is None or offsets is None:
        return taken
    copy = np.repeat(copy_numbers(index), np.diff(offsets)).astype(np.uint64)
    return replace(taken, prefix_hashes=(hashes.view(np.uint64) ^ (copy * _COPY)).view(np.int64))


def copy_numbers(index: IntArray) -> IntArray:
    """(N,) how often the same value came before in `index`: [5, 3, 5, 5] gives [0, 0, 1, 2]."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    first = np.searchsorted(ordered, ordered)
    numbers = np.empty_like(index)
    numbers[order] = np.arange(index.size) - first
    return numbers
