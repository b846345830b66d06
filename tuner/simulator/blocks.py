"""KV blocks: how many a request holds, and giving them back. Counts only; the prefix cache, which
needs block identities, has its place here.

Mirrors `vllm/v1/core/kv_cache_manager.py` (allocate_slots, free) of vLLM 0.32 without prefix hits.
"""

from __future__ import annotations

from profiler.compiled import compiled
from tuner.simulator.state import (
    CLOCK,
    DECODING,
    FREE_BLOCKS,
    NUM_RUNNING,
    PREFILLING,
    Limits,
    State,
)


@compiled
def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that hold `tokens` tokens."""
    return (tokens + block_size - 1) // block_size


@compiled
def computed_tokens(state: State, r: int) -> int:
    """Tokens of request `r` with KV (a finishing one has KV for all but its last token)."""
    progress = state.progress
    if progress.phase[r] == PREFILLING:
        return progress.computed[r]
    if progress.phase[r] == DECODING:
        return progress.computed[r] + state.tally.counts[CLOCK]
    return state.requests.prompt_tokens[r] + state.requests.max_output[r] - 1


@compiled
def free_blocks(state: State, limits: Limits, r: int) -> None:
    """Give back all blocks of `r`. Writes FREE_BLOCKS."""
    held = blocks_for(computed_tokens(state, r), limits.block_size)
    state.tally.counts[FREE_BLOCKS] += held


@compiled
def can_admit(state: State, limits: Limits, known: int, chunk: int) -> bool:
    """Admission test: blocks for the chunk, for the whole known sequence, and the watermark.

    `known` is at most the model length, because longer requests are rejected before. The
    watermark counts only while others run.
    """
    free = state.tally.counts[FREE_BLOCKS]
    if state.tally.counts[NUM_RUNNING] > 0:
        free -= limits.watermark_blocks
    wanted = known if limits.reserve_full else chunk
    return blocks_for(wanted, limits.block_size) <= free
