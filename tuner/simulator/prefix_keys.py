"""From the prefix hashes of a trace to the keys of KV blocks.

A trace gives one hash per *started* prefix block of P tokens; the engine shares whole KV blocks of
its own size b. The rule, for any P and b: a KV block is the same in two prompts when it is full of
prompt tokens in both and the prefix block that holds its last token, and all before it, have the
same hashes. The last prefix block of a prompt may cover fewer than P tokens; it counts as the same
only as one that covers equally many, so nothing is shared that the hashes do not prove. Blocks
with outputs, and prompt tokens beyond the last hash, are never shared.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from profiler.traffic.trace import Trace
from tuner.simulator.pool_arrays import IntArray, Prefixes
from tuner.simulator.state import Limits, Requests

WordArray = npt.NDArray[np.uint64]


class PrefixBlocks(NamedTuple):
    """The prefix blocks of a trace, numbered."""

    ids: IntArray
    """(H,) equal for equal prefixes up to and including the block; 0 .. num - 1"""
    num: int
    shared: IntArray
    """(N,) leading prefix blocks that another request has too"""


@lru_cache(maxsize=4)
def prefix_blocks(trace: Trace) -> PrefixBlocks:
    """Number the prefix blocks of `trace`; kept for the last few traces.

    Prefixes are told apart by a 64-bit digest of the hashes up to each block.
    """
    hashes, offsets = trace.prefix_hashes, trace.prefix_offsets
    if hashes is None or offsets is None or hashes.size == 0:
        return PrefixBlocks(np.zeros(0, np.int64), 0, np.zeros(trace.num_requests, np.int64))
    chain = chain_digests(trace, hashes, offsets)
    _, first, inverse, counts = np.unique(
        chain, return_index=True, return_inverse=True, return_counts=True
    )
    by_appearance = np.empty(first.size, dtype=np.int64)
    by_appearance[np.argsort(first)] = np.arange(first.size)
    owner = np.repeat(np.arange(trace.num_requests), np.diff(offsets))
    several = counts[inverse] > 1
    shared = np.bincount(owner[several], minlength=trace.num_requests)
    return PrefixBlocks(by_appearance[inverse], first.size, shared.astype(np.int64))


def chain_digests(trace: Trace, hashes: IntArray, offsets: IntArray) -> WordArray:
    """(H,) digest of each prefix block with everything before it and the tokens it covers."""
    size = trace.prefix_block_tokens or 1
    depth = np.arange(hashes.size) - np.repeat(offsets[:-1], np.diff(offsets))
    prompt = np.repeat(trace.prompt_tokens, np.diff(offsets))
    covered = np.minimum(prompt - depth * size, size)
    return chain_words(mix(hashes.astype(np.uint64) ^ mix(covered.astype(np.uint64))), offsets)


def chain_words(own: WordArray, offsets: IntArray) -> WordArray:
    """(H,) digest of each word of a ragged array with all before it in its segment."""
    depth = np.arange(own.size) - np.repeat(offsets[:-1], np.diff(offsets))
    chain = np.zeros(own.size, dtype=np.uint64)
    order = np.argsort(depth, kind="stable")
    ends = np.cumsum(np.bincount(depth))
    for level, end in enumerate(ends):
        at = order[ends[level - 1] if level else 0 : end]
        chain[at] = mix(own[at] + (chain[at - 1] if level else np.uint64(0)))
    return chain


def mix(words: WordArray) -> WordArray:
    """The finalizer of splitmix64 (Steele, Lea and Flood, OOPSLA 2014), a bijection."""
    z = words + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def build_prefixes(
    trace: Trace, accepted: npt.NDArray[np.bool_], requests: Requests, limits: Limits
) -> Prefixes:
    """`Prefixes` of the accepted requests; empty when blocks are only counted."""
    if not limits.identities:
        return Prefixes(*(np.zeros(0, dtype=np.int64) for _ in Prefixes._fields))
    blocks, block, size = prefix_blocks(trace), limits.block_size, limits.prefix_tokens
    offsets = trace.prefix_offsets
    start = np.zeros(trace.num_requests, np.int64) if offsets is None else offsets[:-1]
    prompt = requests.prompt_tokens
    shared = np.minimum(prompt // block, blocks.shared[accepted] * size // block)
    held = -(-(prompt + requests.max_output) // block)
    return Prefixes(
        ids=blocks.ids,
        start=start[accepted].astype(np.int64),
        shared=shared,
        private=blocks.num * limits.prefix_span + np.cumsum(held) - held,
        findable=shared.copy(),
    )
