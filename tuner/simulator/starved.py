"""The running pass request by request, where the aggregated one would not be exact.

That is so for settings that can leave a decode without its token (max_num_scheduled_tokens below
the number of running requests, an adaptive threshold that divides a larger budget than the step may
use), under priorities, with images, and in a step with preemptions when blocks have identities. It
costs O(running) per step; `scheduler.schedule_running` is the form for every other step. As in vLLM
0.32; holds for >=0.28,<0.33 under priorities, see `profiler.versions`.
"""

from __future__ import annotations

import numpy as np

from profiler.compiled import inner
from tuner.simulator.blocks import computed_tokens, grow_blocks
from tuner.simulator.encoder import encoder_left, schedule_encoder_inputs, settle_encoder_inputs
from tuner.simulator.fences import is_fenced
from tuner.simulator.gaps import log_own_gap
from tuner.simulator.lists import link_end, unlink_end
from tuner.simulator.lockstep import link_crossing, unlink_crossing
from tuner.simulator.scheduler import blocks_wanted, chunk_size, remaining_tokens
from tuner.simulator.state import (
    CLOCK,
    DECODE_CONTEXT,
    DECODING,
    FREE_BLOCKS,
    LAST_END,
    LATE_CONTEXT,
    NONE,
    NUM_DECODES,
    NUM_LATE,
    PREFILLING,
    RUN_HEAD,
    Limits,
    State,
)
from tuner.simulator.tables import hash_full_blocks
from tuner.simulator.transfer_arrays import Transfers
from tuner.simulator.victims import pick_victim, preempt


@inner
def wanted_tokens(state: State, limits: Limits, r: int, threshold: int, left: int) -> int:
    """Tokens the running request `r` gets when `left` of the budget remain."""
    phase = state.progress.phase[r]
    if phase == DECODING:
        return min(1, left)
    if phase == PREFILLING:
        n = chunk_size(remaining_tokens(state, r), threshold, left)
        if n > 0:
            n = schedule_encoder_inputs(state.vision, limits, r, state.progress.computed[r], n)
        return n
    return 0


@inner
def schedule_each(
    state: State, limits: Limits, threshold: int, transfers: Transfers | None
) -> tuple[int, int]:
    """The running pass in list order; decodes beyond the budget are late.

    Returns (budget left, number preempted). `Progress.chunk` also says 1 or 0 for decodes. A
    request that preempts itself ends the pass: those behind it get nothing in this step. So does
    one whose victim is fenced, but what is left of the budget then goes to waiting requests.
    """
    counts, chunk = state.tally.counts, state.progress.chunk
    left, preempted, fenced = limits.token_budget, 0, False
    r = counts[RUN_HEAD]
    while r != NONE:
        image_budget = encoder_left(state.vision)
        n = 0 if fenced else wanted_tokens(state, limits, r, threshold, left)
        chunk[r] = n
        need = blocks_wanted(state, limits, r, transfers) if n > 0 else 0
        gone = False
        after = NONE
        while need > counts[FREE_BLOCKS] and not gone:
            after = state.links.order_next[r]
            if transfers is not None:
                fenced = is_fenced(transfers, state, pick_victim(state, limits))
            if fenced:
                n, need, chunk[r] = 0, 0, 0
                continue
            refund, gone = preempt_for(state, limits, r)
            left += refund
            preempted += 1
        settle_encoder_inputs(state.vision, r, image_budget, not gone)
        if gone:
            left = 0
            r = after
            continue
        if n > 0:
            grow_blocks(state, limits, r, n, hashable_tokens(state, limits, r, n))
        elif state.progress.phase[r] == DECODING:
            delay_decode(state, limits, r)
        left -= n
        r = state.links.order_next[r]
    return left, preempted


@inner
def preempt_for(state: State, limits: Limits, r: int) -> tuple[int, bool]:
    """Preempt somebody because `r` needs a block.

    Returns (tokens given back to the budget, whether it was `r` itself). A victim before `r` in
    the list has been scheduled already, which is undone.
    """
    victim = pick_victim(state, limits)
    ticket = state.links.ticket
    refund = state.progress.chunk[victim] if ticket[victim] < ticket[r] else 0
    preempt(state, limits, victim, refund)
    return refund, victim == r


@inner
def hashable_tokens(state: State, limits: Limits, r: int, n: int) -> int:
    """Tokens of `r` that are known when `n` more are scheduled (len of all_token_ids).

    A decode's next token is in flight under asynchronous scheduling, unless `r` was left out of
    the step before.
    """
    tokens = computed_tokens(state, r) + n
    in_flight = limits.overlapped and state.progress.phase[r] == DECODING
    if in_flight and np.isnan(state.progress.last_token_s[r]):
        return tokens - 1
    return tokens


@inner
def delay_decode(state: State, limits: Limits, r: int) -> None:
    """`r` gets no token in this step: everything of it moves by one step."""
    counts, progress, tally = state.tally.counts, state.progress, state.tally
    klass = state.requests.klass[r]
    if limits.identities:
        hash_full_blocks(state, limits, r, computed_tokens(state, r))
    if np.isnan(progress.last_token_s[r]):
        progress.num_slow[r] += tally.slow[klass] - progress.slow_at_join[r]
        progress.last_token_s[r] = tally.times[LAST_END]
    unlink_end(state, r)
    unlink_crossing(state, limits, r)
    progress.computed[r] -= 1
    progress.end_clock[r] += 1
    link_crossing(state, limits, r)
    link_end(state, r)
    counts[DECODE_CONTEXT] -= 1
    counts[NUM_LATE] += 1
    counts[LATE_CONTEXT] += progress.computed[r] + counts[CLOCK]
    tally.late[klass] += 1


@inner
def exclude_returning(state: State) -> None:
    """A late decode that gets its token has a gap of its own, not the pooled one."""
    progress, tally = state.progress, state.tally
    r = tally.counts[RUN_HEAD]
    while r != NONE:
        late = progress.phase[r] == DECODING and not np.isnan(progress.last_token_s[r])
        if late and progress.chunk[r] == 1:
            tally.late[state.requests.klass[r]] += 1
        r = state.links.order_next[r]


@inner
def settle_returning(state: State, end: float) -> None:
    """Log the own gap of every late decode that got its token at `end`, and forget the lateness."""
    progress, tally = state.progress, state.tally
    r = tally.counts[RUN_HEAD]
    while r != NONE:
        late = progress.phase[r] == DECODING and not np.isnan(progress.last_token_s[r])
        if late and progress.chunk[r] == 1:
            log_own_gap(state, r, end)
            progress.slow_at_join[r] = tally.slow[state.requests.klass[r]]
        r = state.links.order_next[r]
    forget_late(state)


@inner
def forget_late(state: State) -> None:
    """The step is over: nobody is late any more."""
    tally = state.tally
    tally.counts[NUM_LATE] = 0
    tally.counts[LATE_CONTEXT] = 0
    tally.late[:] = 0


@inner
def skip_step(state: State) -> None:
    """The step is empty and every decode was late in it: the lockstep moves without a token."""
    counts = state.tally.counts
    counts[CLOCK] += 1
    counts[DECODE_CONTEXT] += counts[NUM_DECODES]
    forget_late(state)
