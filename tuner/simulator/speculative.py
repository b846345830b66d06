"""The running pass of vLLM 0.32 with speculative decoding, request by request.

Each function names the part of `vllm/v1/core/sched/scheduler.py` it mirrors. A decode is scheduled
with its drafts, which are charged to the budgets like any token; methods with draft slots charge
these to max_num_batched_tokens on top. The waiting pass is in `speculative_admission.py`, what the
output changes in `verify.py`.
"""

from __future__ import annotations

from profiler.compiled import inner
from tuner.simulator.drafts import (
    INPUTS_LEFT,
    NUM_CHUNKS,
    NUM_RAN,
    TOKENS_LEFT,
    Drafts,
    known_tokens,
    tokens_in_flight,
)
from tuner.simulator.encoder import encoder_left, schedule_encoder_inputs, settle_encoder_inputs
from tuner.simulator.encoder_release import free_viewer
from tuner.simulator.lists import remove_running
from tuner.simulator.record import add_row
from tuner.simulator.scheduler import chunk_size
from tuner.simulator.state import (
    DECODING,
    FINISHING,
    FREE_BLOCKS,
    FRUITLESS,
    NONE,
    NUM_PREEMPTIONS,
    PREEMPTED,
    PREFILLING,
    RECORDING,
    RUN_HEAD,
    WAITING,
    Limits,
    State,
)
from tuner.simulator.tables import (
    blocks_for,
    free_table,
    grow_table,
    hash_full_blocks,
    publish_private,
)
from tuner.simulator.victims import pick_victim
from tuner.simulator.waiting import push_waiting


@inner
def room_left(drafts: Drafts, limits: Limits) -> int:
    """Tokens that the next request may get."""
    left: int = min(drafts.step[TOKENS_LEFT], drafts.step[INPUTS_LEFT] - limits.draft_slots)
    return max(left, 0)


@inner
def charge(drafts: Drafts, limits: Limits, tokens: int, requests: int) -> None:
    """Take the tokens of a scheduled request from the budgets; negative ones are given back."""
    drafts.step[TOKENS_LEFT] -= tokens
    drafts.step[INPUTS_LEFT] -= tokens + requests * limits.draft_slots


@inner
def drafted_tokens(state: State, limits: Limits, r: int, threshold: int, left: int) -> int:
    """Tokens that the running `r` gets when `left` remain: the rest of its prompt, or one and its
    drafts; none when the output in flight ends it even if every draft is rejected."""
    known, computed = known_tokens(state, r), state.progress.computed[r]
    wanted = known - computed
    if state.progress.phase[r] == DECODING:
        flying = tokens_in_flight(state, r)
        last = state.requests.prompt_tokens[r] + state.requests.max_output[r] - 1
        if flying > 0 and known >= last:
            return 0
        wanted = 1 + limits.num_drafts
    n = min(chunk_size(wanted, threshold, left), limits.max_model_len - computed - 1)
    if n > 0 and state.progress.phase[r] == PREFILLING:
        n = schedule_encoder_inputs(state.vision, limits, r, computed, n)
    return n


@inner
def blocks_ahead(state: State, limits: Limits, r: int, n: int) -> int:
    """Blocks that `r` lacks for `n` more tokens and the lookahead."""
    slots = min(state.progress.computed[r] + n + limits.lookahead, limits.max_model_len)
    return blocks_for(slots, limits.block_size) - state.pool.holders.held[r]


@inner
def grow_ahead(state: State, limits: Limits, r: int, n: int) -> None:
    """Blocks for `n` more tokens of `r` and the lookahead (allocate_slots). Drafts are not hashed,
    because they may be rejected."""
    tokens = state.progress.computed[r] + n
    grow_table(state, limits, r, min(tokens + limits.lookahead, limits.max_model_len))
    if limits.caching:
        hash_full_blocks(state, limits, r, min(tokens, known_tokens(state, r)))


@inner
def schedule_drafts(state: State, drafts: Drafts, limits: Limits, threshold: int) -> int:
    """The running pass in list order. Returns the number preempted; writes Progress.chunk."""
    counts, chunk, step = state.tally.counts, state.progress.chunk, drafts.step
    step[TOKENS_LEFT], step[INPUTS_LEFT] = limits.token_budget, limits.adaptive_budget
    step[NUM_RAN], step[NUM_CHUNKS] = 0, 0
    preempted = 0
    r = counts[RUN_HEAD]
    while r != NONE:
        left, image_budget = room_left(drafts, limits), encoder_left(state.vision)
        n = drafted_tokens(state, limits, r, threshold, left) if left > 0 else 0
        chunk[r] = n
        after, gone = state.links.order_next[r], False
        while n > 0 and not gone and blocks_ahead(state, limits, r, n) > counts[FREE_BLOCKS]:
            after = state.links.order_next[r]
            gone = make_way(state, drafts, limits, r)
            preempted += 1
        encodes = n > 0 and not gone and state.progress.phase[r] == PREFILLING
        settle_encoder_inputs(state.vision, r, image_budget, encodes)
        if gone:
            step[TOKENS_LEFT] = 0
            r = after
            continue
        if n > 0:
            grow_ahead(state, limits, r, n)
            charge(drafts, limits, n, 1)
            step[NUM_RAN] += 1
            step[NUM_CHUNKS] += state.progress.phase[r] == PREFILLING
        r = state.links.order_next[r]
    return preempted


@inner
def make_way(state: State, drafts: Drafts, limits: Limits, r: int) -> bool:
    """Preempt somebody because `r` needs a block; returns whether it was `r` itself. What a victim
    before `r` was given in this step goes back to the budgets."""
    victim = pick_victim(state, limits)
    ticket = state.links.ticket
    given = state.progress.chunk[victim] if ticket[victim] < ticket[r] else 0
    if given > 0:
        charge(drafts, limits, -given, -1)
    free_viewer(state.vision, victim, given)
    preempt_draft(state, drafts, limits, victim)
    return victim == r


@inner
def preempt_draft(state: State, drafts: Drafts, limits: Limits, r: int) -> None:
    """Preempt `r`. A request that the output in flight ends is dropped instead of queued, because
    that output is seen before the queue is looked at again."""
    counts, progress = state.tally.counts, state.progress
    if counts[RECORDING] == 1:
        add_row(state, r, PREEMPTED, 0)
    remove_running(state, r)
    if limits.caching:
        publish_private(state, limits, r)
    free_table(state, r)
    counts[NUM_PREEMPTIONS] += 1
    counts[FRUITLESS] += 1
    flying = progress.phase[r] == DECODING and tokens_in_flight(state, r) > 0
    progress.computed[r], progress.chunk[r] = 0, 0
    if flying and progress.outputs[r] + drafts.coming[r] >= state.requests.max_output[r]:
        progress.phase[r] = FINISHING
        return
    progress.phase[r] = WAITING
    push_waiting(state, limits, r)
