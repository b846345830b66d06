"""Block tables of the running requests: prefix hits, growing, hashing full blocks, giving back.

Mirrors `KVCacheManager.get_computed_blocks`, `allocate_slots` and `free`, and
`SingleTypeKVCacheManager.cache_blocks`, of vLLM 0.32 (`vllm/v1/core/kv_cache_manager.py`,
`single_type_kv_cache_manager.py`).

When is a block hashed? The engine does it when the step that fills the block is *scheduled*, so
that a request admitted later in the same call already hits it; for the token a decode feeds back
under asynchronous scheduling one step later, because that token is not known yet. Prompt blocks
are hashed exactly then. A block with outputs can be hit only by its own request after a
preemption, so a decode's blocks are hashed when it needs the next one or gives up its table,
whichever is first; nobody can see the difference.
"""

from __future__ import annotations

from profiler.compiled import inner
from tuner.simulator.pool import find_block, list_block, release_block, take_block, touch_block
from tuner.simulator.pool_arrays import PRIVATE, Prefixes
from tuner.simulator.state import CLOCK, NONE, NUM_FREE_ROWS, Limits, State


@inner
def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that hold `tokens` tokens."""
    return (tokens + block_size - 1) // block_size


@inner
def block_key(prefixes: Prefixes, limits: Limits, r: int, i: int) -> int:
    """Key of the content of block `i` of `r`, with everything before it."""
    if i >= prefixes.shared[r]:
        return prefixes.private[r] + i
    at = ((i + 1) * limits.block_size - 1) // limits.prefix_tokens
    number = prefixes.ids[prefixes.start[r] + at]
    return number * limits.prefix_span + i % limits.prefix_span


@inner
def find_hits(state: State, limits: Limits, r: int, known: int) -> tuple[int, int]:
    """Leading blocks of the waiting `r` that are in the hash map, all but the last known token.

    Returns (hits, how many of them are in the free queue) and leaves the blocks in the table row
    that `claim_table` would give to `r`. Needs an unused row.
    """
    pool = state.pool
    at = pool.free_rows[state.tally.counts[NUM_FREE_ROWS] - 1]
    most = min((known - 1) // limits.block_size, state.prefixes.findable[r])
    hits, idle = 0, 0
    while hits < most:
        b = find_block(pool, block_key(state.prefixes, limits, r, hits))
        if b == NONE:
            break
        pool.table[at + hits] = b
        if pool.blocks.uses[b] == 0:
            idle += 1
        hits += 1
    return hits, idle


@inner
def claim_table(state: State, r: int, hits: int) -> None:
    """`r` is admitted: it gets a table row and holds the hits that `find_hits` left there."""
    pool, counts = state.pool, state.tally.counts
    counts[NUM_FREE_ROWS] -= 1
    at = pool.free_rows[counts[NUM_FREE_ROWS]]
    for i in range(hits):
        touch_block(pool, counts, pool.table[at + i])
    pool.holders.row[r], pool.holders.held[r], pool.holders.hashed[r] = at, hits, hits


@inner
def grow_table(state: State, limits: Limits, r: int, tokens: int) -> None:
    """Give `r` blocks for `tokens` tokens; the caller has checked that they are free."""
    pool = state.pool
    at, wanted = pool.holders.row[r], blocks_for(tokens, limits.block_size)
    for i in range(pool.holders.held[r], wanted):
        pool.table[at + i] = take_block(pool, state.tally.counts)
    pool.holders.held[r] = max(pool.holders.held[r], wanted)


@inner
def hash_full_blocks(state: State, limits: Limits, r: int, tokens: int) -> None:
    """Hash the blocks of `r` that its first `tokens` tokens fill."""
    pool = state.pool
    at, full = pool.holders.row[r], tokens // limits.block_size
    for i in range(pool.holders.hashed[r], full):
        if i < state.prefixes.shared[r]:
            list_block(pool, pool.table[at + i], block_key(state.prefixes, limits, r, i))
        else:
            pool.blocks.key[pool.table[at + i]] = PRIVATE
    pool.holders.hashed[r] = max(pool.holders.hashed[r], full)


@inner
def grow_crossing(state: State, limits: Limits) -> None:
    """A block for every decode that needs one at this clock."""
    pool, clock = state.pool, state.tally.counts[CLOCK]
    r = pool.cross_ends[2 * (clock % limits.block_size)]
    while r != NONE:
        computed = state.progress.computed[r] + clock
        hash_full_blocks(state, limits, r, computed)
        grow_table(state, limits, r, computed + 1)
        r = pool.holders.cross_next[r]


@inner
def publish_private(state: State, limits: Limits, r: int) -> None:
    """`r` is preempted: from now on it can hit its own blocks, outputs included."""
    pool = state.pool
    at = pool.holders.row[r]
    for i in range(pool.holders.hashed[r]):
        b = pool.table[at + i]
        if pool.blocks.key[b] == PRIVATE:
            list_block(pool, b, block_key(state.prefixes, limits, r, i))
    state.prefixes.findable[r] = pool.table.size


@inner
def free_table(state: State, r: int) -> None:
    """Release the blocks of `r`, tail first, and its table row.

    The un-hashed ones are at the tail and end up at the very front of the free queue, the last
    block first; pushing them in table order does that.
    """
    pool, counts = state.pool, state.tally.counts
    at = pool.holders.row[r]
    for i in range(pool.holders.hashed[r], pool.holders.held[r]):
        release_block(pool, counts, pool.table[at + i])
    for i in range(pool.holders.hashed[r] - 1, -1, -1):
        release_block(pool, counts, pool.table[at + i])
    pool.free_rows[counts[NUM_FREE_ROWS]] = at
    counts[NUM_FREE_ROWS] += 1
    pool.holders.held[r], pool.holders.hashed[r] = 0, 0
