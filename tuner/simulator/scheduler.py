"""One schedule() call of vLLM 0.32, one small function per rule.

Holds for >=0.24 where `profiler.versions` names no difference, by differential test.
Each function names the part of `vllm/v1/core/sched/scheduler.py` it mirrors. The requests that
decode move in lockstep, one token per step, and are kept as aggregates; only partial prefills,
admissions and preemptions are visited one by one. Two facts make that exact (first-come order, no
speculation, token budget at least the running requests; `starved.py` handles the rest):

* a decode behind a partial prefill in the running list always still fits the token budget, so the
  budget left for partial prefills is the budget less *all* decodes;
* victims are taken from the tail until everybody who remains fits, so the order in which the
  others allocate does not matter.
"""

from __future__ import annotations

import numpy as np

from profiler.compiled import inner
from tuner.simulator.blocks import can_admit, computed_tokens, extra_blocks, grow_blocks
from tuner.simulator.encoder import (
    encoder_left,
    refuse_encoder_inputs,
    schedule_encoder_inputs,
    settle_encoder_inputs,
)
from tuner.simulator.fences import defers_frees
from tuner.simulator.lists import append_partial, append_running
from tuner.simulator.state import (
    BLOCKED,
    CACHED_TOKENS,
    CLOCK,
    DECODING,
    FREE_BLOCKS,
    NONE,
    NUM_DECODES,
    NUM_RUNNING,
    PART_HEAD,
    PREFILLING,
    RUN_TAIL,
    SCHEDULE_AT,
    Limits,
    State,
)
from tuner.simulator.tables import (
    claim_table,
    find_hits,
    grow_crossing,
    grow_table,
    hash_full_blocks,
)
from tuner.simulator.transfer_arrays import Transfers
from tuner.simulator.transfers import chunk_blocks, num_with_kv
from tuner.simulator.victims import preempt
from tuner.simulator.waiting import num_waiting, pop_waiting, waiting_head


@inner
def current_threshold(state: State, limits: Limits) -> int:
    """Long-prefill cap of this step, 0 for none: off for a lone request, adaptive floor."""
    present = state.tally.counts[NUM_RUNNING] + num_waiting(state) + num_with_kv(state.transfers)
    if limits.threshold == 0 or present <= 1:
        return 0
    if limits.adaptive:
        return max(limits.threshold, limits.adaptive_budget // present)
    return limits.threshold


@inner
def chunk_size(remaining: int, threshold: int, left: int) -> int:
    """Tokens a prompt gets: what remains, capped by the threshold and by the budget left."""
    n = remaining
    if 0 < threshold < n:
        n = threshold
    return min(n, left)


@inner
def remaining_tokens(state: State, r: int) -> int:
    """Known tokens (prompt, and outputs of a preempted request) that are not computed yet."""
    progress = state.progress
    return state.requests.prompt_tokens[r] + progress.outputs[r] - progress.computed[r]


@inner
def schedule_running(
    state: State, limits: Limits, threshold: int, transfers: Transfers | None
) -> tuple[int, int]:
    """The running pass: a token for every decode, a chunk for every partial prefill.

    Returns (budget left, number preempted). Writes chunks and FREE_BLOCKS. With identities it
    matters which blocks a victim leaves to whom, and with a KV connector who may be one, so nothing
    is done when they do not suffice and the number is -1: go through the list one by one.
    """
    counts = state.tally.counts
    left = limits.token_budget - counts[NUM_DECODES]
    need = state.tally.crossing[counts[CLOCK] % limits.block_size]
    r = counts[PART_HEAD]
    while r != NONE:
        n = chunk_size(remaining_tokens(state, r), threshold, left)
        state.progress.chunk[r] = n
        left -= n
        if transfers is None:
            need += extra_blocks(limits, state.progress.computed[r], n)
        else:
            need += chunk_blocks(state, limits, r)
        r = state.links.kind_next[r]
    if (limits.identities or defers_frees(transfers)) and need > counts[FREE_BLOCKS]:
        return left, -1
    if limits.identities:
        grow_running(state, limits)
        return left, 0
    preempted = 0
    while need > counts[FREE_BLOCKS]:
        r = counts[RUN_TAIL]
        need -= blocks_wanted(state, limits, r, transfers)
        preempt(state, limits, r, 0)
        preempted += 1
    counts[FREE_BLOCKS] -= need
    return left, preempted


@inner
def grow_running(state: State, limits: Limits) -> None:
    """Blocks for everybody, when there are enough; then the order does not matter, because a taken
    block has no content and is as good as another."""
    progress = state.progress
    grow_crossing(state, limits)
    r = state.tally.counts[PART_HEAD]
    while r != NONE:
        tokens = progress.computed[r] + progress.chunk[r]
        grow_table(state, limits, r, tokens)
        hash_full_blocks(state, limits, r, tokens)
        r = state.links.kind_next[r]


@inner
def blocks_wanted(state: State, limits: Limits, r: int, transfers: Transfers | None) -> int:
    """New blocks that the running request `r` wants in this step."""
    phase = state.progress.phase[r]
    if phase == PREFILLING:
        if transfers is not None:
            return chunk_blocks(state, limits, r)
        return extra_blocks(limits, state.progress.computed[r], state.progress.chunk[r])
    if phase == DECODING:
        return 1 if computed_tokens(state, r) % limits.block_size == 0 else 0
    return 0


@inner
def admit_waiting(state: State, limits: Limits, threshold: int, left: int) -> None:
    """The waiting pass: admit from the head while slots, budget and blocks last.

    Strict head-of-line: the first request that does not fit ends the pass. Writes BLOCKED.
    """
    counts = state.tally.counts
    r = waiting_head(state, limits)
    while r != NONE and left > 0 and counts[NUM_RUNNING] < limits.max_active:
        image_budget = encoder_left(state.vision)
        hits, n = fit_waiting(state, limits, r, threshold, left)
        if n == 0:
            break
        pop_waiting(state, limits)
        start_prefill(state, limits, r, hits, n)
        settle_encoder_inputs(state.vision, r, image_budget, True)
        left -= n
        r = waiting_head(state, limits)
    counts[BLOCKED] = 1 if r != NONE else 0


@inner
def fit_waiting(state: State, limits: Limits, r: int, threshold: int, left: int) -> tuple[int, int]:
    """(hit blocks, tokens) of the waiting `r` if it were admitted; 0 tokens when it must wait."""
    hits, idle = 0, 0
    known = remaining_tokens(state, r)
    if limits.identities:
        hits, idle = find_hits(state, limits, r, known)
    cached = hits * limits.block_size
    n = chunk_size(known - cached, threshold, known)
    if not limits.chunked and n > left:
        return hits, 0
    n = schedule_encoder_inputs(state.vision, limits, r, cached, min(n, left))
    if n == 0:
        return hits, 0
    wanted = known if limits.reserve_full else cached + n
    if not can_admit(state, limits, wanted, hits, idle):
        refuse_encoder_inputs(state.vision, r)
        return hits, 0
    return hits, n


@inner
def start_prefill(state: State, limits: Limits, r: int, hits: int, n: int) -> None:
    """`r` runs: `hits` blocks of it are there already, `n` tokens are computed in this step."""
    progress, counts = state.progress, state.tally.counts
    append_running(state, r)
    append_partial(state, r)
    progress.phase[r], progress.chunk[r] = PREFILLING, n
    progress.computed[r] = hits * limits.block_size
    if np.isnan(progress.admitted_s[r]):
        progress.admitted_s[r] = state.tally.times[SCHEDULE_AT]
    if limits.identities:
        claim_table(state, r, hits)
        if state.prefixes.findable[r] <= state.prefixes.shared[r]:
            counts[CACHED_TOKENS] += progress.computed[r]
    grow_blocks(state, limits, r, n, progress.computed[r] + n)
