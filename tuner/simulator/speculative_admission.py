"""The waiting pass of vLLM 0.32 with speculative decoding: admission from the head of the queue.

Each function names the part of vLLM it mirrors, in `vllm/v1/core/sched/scheduler.py` unless said.
"""

from __future__ import annotations

import numpy as np

from profiler.compiled import inner
from tuner.simulator.blocks import can_admit
from tuner.simulator.drafts import NUM_CHUNKS, NUM_RAN, Drafts, known_tokens
from tuner.simulator.encoder import (
    encoder_left,
    refuse_encoder_inputs,
    schedule_encoder_inputs,
    settle_encoder_inputs,
)
from tuner.simulator.lists import append_running
from tuner.simulator.scheduler import chunk_size
from tuner.simulator.speculative import charge, grow_ahead, room_left
from tuner.simulator.state import (
    CACHED_TOKENS,
    NONE,
    NUM_FREE_ROWS,
    NUM_RUNNING,
    PREFILLING,
    SCHEDULE_AT,
    Limits,
    State,
)
from tuner.simulator.tables import claim_table, find_hits
from tuner.simulator.waiting import pop_waiting, waiting_head


@inner
def kept_hits(state: State, limits: Limits, r: int) -> tuple[int, int]:
    """Prefix hits of the waiting `r`, and how many of them are in the free queue. A drafter that
    reads hidden states has the last block of a hit computed again (find_longest_cache_hit)."""
    if not limits.caching:
        return 0, 0
    hits, idle = find_hits(state, limits, r, known_tokens(state, r))
    if limits.drops_hit and hits > 0:
        hits -= 1
        at = state.pool.free_rows[state.tally.counts[NUM_FREE_ROWS] - 1]
        if state.pool.blocks.uses[state.pool.table[at + hits]] == 0:
            idle -= 1
    return hits, idle


@inner
def pads(drafts: Drafts, limits: Limits, wanted: int, cached: int) -> bool:
    """Whether a request that would start with one token gets 1 + drafts, so that all decodes of
    the step are alike: only in steps without chunks, and only with room in the model length."""
    alike = drafts.step[NUM_CHUNKS] == 0 and (drafts.step[NUM_RAN] > 0 or cached > 0)
    return wanted == 1 and alike and cached + limits.num_drafts + 2 <= limits.max_model_len


@inner
def admit_drafts(state: State, drafts: Drafts, limits: Limits, threshold: int) -> None:
    """The waiting pass: admit from the head while slots, budgets and blocks last."""
    r = waiting_head(state, limits)
    while r != NONE and state.tally.counts[NUM_RUNNING] < limits.max_active:
        left = room_left(drafts, limits)
        if left == 0:
            break
        hits, idle = kept_hits(state, limits, r)
        known, cached = known_tokens(state, r), hits * limits.block_size
        wanted = known - cached
        if pads(drafts, limits, wanted, cached):
            wanted = 1 + limits.num_drafts
            if wanted > left:
                break
        n = chunk_size(wanted, threshold, wanted)
        if not limits.chunked and n > left:
            break
        image_budget = encoder_left(state.vision)
        n = schedule_encoder_inputs(state.vision, limits, r, cached, min(n, left))
        if n == 0:
            settle_encoder_inputs(state.vision, r, 0, False)
            break
        if not has_slots(state, limits, (hits, idle), known, n):
            refuse_encoder_inputs(state.vision, r)
            break
        pop_waiting(state, limits)
        start_request(state, limits, r, hits, n)
        settle_encoder_inputs(state.vision, r, image_budget, True)
        charge(drafts, limits, n, 1)
        r = waiting_head(state, limits)


@inner
def has_slots(state: State, limits: Limits, hits: tuple[int, int], known: int, n: int) -> bool:
    """Whether there are blocks for a start with `n` tokens after `hits` (blocks, idle ones)."""
    slots = min(hits[0] * limits.block_size + n + limits.lookahead, limits.max_model_len)
    if limits.reserve_full:
        slots = max(slots, known)
    ok: bool = can_admit(state, limits, slots, hits[0], hits[1])
    return ok


@inner
def start_request(state: State, limits: Limits, r: int, hits: int, n: int) -> None:
    """`r` runs: `hits` blocks of it are there already, `n` tokens are computed in this step."""
    progress = state.progress
    append_running(state, r)
    progress.phase[r], progress.chunk[r] = PREFILLING, n
    progress.computed[r] = hits * limits.block_size
    if np.isnan(progress.admitted_s[r]):
        progress.admitted_s[r] = state.tally.times[SCHEDULE_AT]
    claim_table(state, r, hits)
    if state.prefixes.findable[r] <= state.prefixes.shared[r]:
        state.tally.counts[CACHED_TOKENS] += progress.computed[r]
    grow_ahead(state, limits, r, n)
