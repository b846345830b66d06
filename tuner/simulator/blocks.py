"""How many KV blocks a request needs, and giving them out and back.

Where no two requests can share a block, blocks are only counted; else they have identities, see
`pool.py` and `tables.py`. Mirrors `KVCacheManager.allocate_slots` and `free` of vLLM 0.32
(`vllm/v1/core/kv_cache_manager.py`); holds for >=0.24 by reading, without a watermark for >=0.21.
"""

from __future__ import annotations

from profiler.compiled import inner
from tuner.simulator.state import (
    CLOCK,
    DECODING,
    FREE_BLOCKS,
    NUM_RUNNING,
    PREFILLING,
    Limits,
    State,
)
from tuner.simulator.tables import blocks_for, free_table, grow_table, hash_full_blocks


@inner
def computed_tokens(state: State, r: int) -> int:
    """Tokens of request `r` with KV (a finishing one has KV for all but its last token)."""
    progress = state.progress
    if progress.phase[r] == PREFILLING:
        return progress.computed[r]
    if progress.phase[r] == DECODING:
        return progress.computed[r] + state.tally.counts[CLOCK]
    return state.requests.prompt_tokens[r] + state.requests.max_output[r] - 1


@inner
def extra_blocks(limits: Limits, computed: int, n: int) -> int:
    """New blocks that `n` more tokens need after `computed` ones."""
    return blocks_for(computed + n, limits.block_size) - blocks_for(computed, limits.block_size)


@inner
def grow_blocks(state: State, limits: Limits, r: int, n: int, known: int) -> None:
    """Blocks for `n` more tokens of `r`, and hash the full ones among the first `known` tokens.

    The caller has checked that they are free. Writes FREE_BLOCKS.
    """
    computed = computed_tokens(state, r)
    if limits.identities:
        grow_table(state, limits, r, computed + n)
        hash_full_blocks(state, limits, r, min(computed + n, known))
    else:
        state.tally.counts[FREE_BLOCKS] -= extra_blocks(limits, computed, n)


@inner
def free_blocks(state: State, limits: Limits, r: int, tokens: int) -> None:
    """Give back all blocks of `r`, which hold `tokens` tokens. Writes FREE_BLOCKS."""
    if limits.identities:
        free_table(state, r)
    else:
        state.tally.counts[FREE_BLOCKS] += blocks_for(tokens, limits.block_size)


@inner
def can_admit(state: State, limits: Limits, tokens: int, hits: int, idle: int) -> bool:
    """Admission test: blocks for `tokens` tokens beyond the `hits`, and the watermark.

    `idle` of the hits are in the free queue and would leave it. `tokens` is at most the model
    length, because longer requests are rejected before. The watermark counts only while others
    run.
    """
    free = state.tally.counts[FREE_BLOCKS]
    if state.tally.counts[NUM_RUNNING] > 0:
        free -= limits.watermark_blocks
    return max(blocks_for(tokens, limits.block_size) - hits, 0) + idle <= free
