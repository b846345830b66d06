"""The KV block pool: the ordered free queue and the hash map of blocks.

Mirrors `vllm/v1/core/block_pool.py` of vLLM 0.32; holds for >=0.24 by reading. The free queue is
popped from the left, which is also the eviction: un-hashed blocks come back to the front, hashed
ones to the back. Duplicate content is not merged; the block put in first that still exists is the
one that is found.
"""

from __future__ import annotations

from profiler.compiled import inner
from tuner.simulator.lists import append, prepend, remove
from tuner.simulator.pool_arrays import UNHASHED, IntArray, Pool
from tuner.simulator.state import FREE_BLOCKS, FREE_HEAD, NONE


@inner
def bucket_of(pool: Pool, key: int) -> int:
    """Index of the first block of `key`'s bucket; keys are dense, so no mixing is needed."""
    return 2 * (key & (pool.buckets.size // 2 - 1))


@inner
def find_block(pool: Pool, key: int) -> int:
    """First block put in under `key` that still exists, or NONE (get_one_block)."""
    b = pool.buckets[bucket_of(pool, key)]
    while b != NONE and pool.blocks.key[b] != key:
        b = pool.blocks.same_next[b]
    return b


@inner
def list_block(pool: Pool, b: int, key: int) -> None:
    """Put block `b` into the hash map under `key` (BlockHashToBlockMap.insert)."""
    pool.blocks.key[b] = key
    append(pool.buckets, pool.blocks.same_prev, pool.blocks.same_next, bucket_of(pool, key), b)


@inner
def take_block(pool: Pool, counts: IntArray) -> int:
    """Pop the first free block and forget its content (get_new_blocks). Writes FREE_BLOCKS."""
    b = counts[FREE_HEAD]
    unfree_block(pool, counts, b)
    if pool.blocks.key[b] >= 0:
        remove(
            pool.buckets,
            pool.blocks.same_prev,
            pool.blocks.same_next,
            bucket_of(pool, pool.blocks.key[b]),
            b,
        )
    pool.blocks.key[b], pool.blocks.uses[b] = UNHASHED, 1
    return b


@inner
def touch_block(pool: Pool, counts: IntArray, b: int) -> None:
    """One more request holds the hit block `b` (touch). Writes FREE_BLOCKS."""
    if pool.blocks.uses[b] == 0:
        unfree_block(pool, counts, b)
    pool.blocks.uses[b] += 1


@inner
def unfree_block(pool: Pool, counts: IntArray, b: int) -> None:
    """Take `b` out of the free queue. Writes FREE_BLOCKS."""
    remove(counts, pool.blocks.free_prev, pool.blocks.free_next, FREE_HEAD, b)
    counts[FREE_BLOCKS] -= 1


@inner
def release_block(pool: Pool, counts: IntArray, b: int) -> None:
    """One request less holds `b`; the last one frees it (free_blocks). Writes FREE_BLOCKS."""
    pool.blocks.uses[b] -= 1
    if pool.blocks.uses[b] > 0:
        return
    if pool.blocks.key[b] == UNHASHED:
        prepend(counts, pool.blocks.free_prev, pool.blocks.free_next, FREE_HEAD, b)
    else:
        append(counts, pool.blocks.free_prev, pool.blocks.free_next, FREE_HEAD, b)
    counts[FREE_BLOCKS] += 1
