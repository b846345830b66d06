"""Arrays of the KV pool whose blocks have identities: needed when prefixes can be shared.

B is the number of KV blocks (the null block 0 included), N of requests, A of running requests, H
of prefix hashes, W the most blocks a request can hold. All are empty when blocks are only counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

UNHASHED = -1
"""key of a block that nobody can hit"""
PRIVATE = -2
"""key of a hashed block that only its own request could hit, were it preempted"""


class Prefixes(NamedTuple):
    """Which blocks of which prompts are alike. Made by `prefix_keys.py`."""

    ids: IntArray
    """(H,) number of each prefix block: equal for equal prefixes up to and including it"""
    start: IntArray
    """(N,) where the prefix blocks of the request start in `ids`"""
    shared: IntArray
    """(N,) leading KV blocks of the prompt that some other request has too"""
    private: IntArray
    """(N,) key of the request's block 0 as a block of its own; block i has this plus i"""
    findable: IntArray
    """(N,) leading blocks that may be in the hash map; written by `tables.py` at a preemption"""


class Blocks(NamedTuple):
    """Per KV block."""

    key: IntArray
    """(B,) UNHASHED, PRIVATE, or the key under which the block is in the hash map"""
    uses: IntArray
    """(B,) requests that hold the block"""
    free_prev: IntArray
    """(B,) free queue; its ends are FREE_HEAD and FREE_TAIL of Tally.counts"""
    free_next: IntArray
    """(B,) the same"""
    same_prev: IntArray
    """(B,) blocks of one bucket of the hash map, in the order they were put in"""
    same_next: IntArray
    """(B,) the same"""


class Holders(NamedTuple):
    """Per request: its blocks."""

    row: IntArray
    """(N,) where the request's row starts in `Pool.table`"""
    held: IntArray
    """(N,) blocks in the request's table"""
    hashed: IntArray
    """(N,) leading ones of them that are hashed"""
    cross_prev: IntArray
    """(N,) decodes that need a new block at the same clock"""
    cross_next: IntArray
    """(N,) the same"""


class Pool(NamedTuple):
    """KV blocks, the hash map over them and the block tables; written by `pool.py`, `tables.py`."""

    blocks: Blocks
    holders: Holders
    buckets: IntArray
    """(2 * power of two,) first and last block of each bucket"""
    table: IntArray
    """(A * W,) block tables of the running requests, one row each"""
    free_rows: IntArray
    """(A,) stack of unused rows of `table`"""
    cross_ends: IntArray
    """(2 * block_size,) first and last decode that needs a block at clock c, at c mod block_size"""
