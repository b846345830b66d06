"""After scheduling: what the batch is, and what its step changes once it has run.

Mirrors `Scheduler.update_from_output` of vLLM 0.32 (>=0.24 by differential test): partial prefills
return no token, a request ends by length, a finished one frees its blocks when its output is
processed.
"""

from __future__ import annotations

from profiler.compiled import inner
from profiler.latency.step_time import BatchShape
from profiler.steps import AFTER_IDLE
from tuner.simulator.blocks import computed_tokens, free_blocks
from tuner.simulator.encoder_release import encoder_tokens
from tuner.simulator.gaps import log_own_gap
from tuner.simulator.lists import remove_partial, remove_running
from tuner.simulator.lockstep import join_lockstep, leave_lockstep
from tuner.simulator.state import (
    CLOCK,
    DECODE_CONTEXT,
    DONE,
    ENDING_NOW,
    FINISHING,
    FOLLOWS,
    FRUITLESS,
    LAST_END,
    LATE_CONTEXT,
    NONE,
    NUM_DECODES,
    NUM_FINISHED,
    NUM_LATE,
    NUM_SENT,
    PART_HEAD,
    SCHEDULE_AT,
    Limits,
    State,
)
from tuner.simulator.tables import hash_full_blocks
from tuner.simulator.transfer_arrays import Transfers
from tuner.simulator.transfers import hold_blocks


@inner
def describe_batch(state: State) -> BatchShape:
    """The batch that has just been scheduled."""
    counts, times, progress = state.tally.counts, state.tally.times, state.progress
    tokens, prompts, pairs, context = 0, 0, 0.0, 0
    r = counts[PART_HEAD]
    while r != NONE:
        n, before = progress.chunk[r], progress.computed[r]
        if n > 0:
            tokens += n
            prompts += 1
            pairs += n * (before + 0.5 * (n + 1))
            context += before
        r = state.links.kind_next[r]
    decodes = counts[NUM_DECODES] - counts[NUM_LATE]
    decode_context = counts[DECODE_CONTEXT] - counts[LATE_CONTEXT]
    idle = times[SCHEDULE_AT] > times[LAST_END]
    follows = AFTER_IDLE if idle else counts[FOLLOWS]
    encoded = encoder_tokens(state.vision)
    return BatchShape(tokens, prompts, pairs, context, decodes, decode_context, follows, encoded)


@inner
def send_next(state: State, limits: Limits, end: float) -> None:
    """Closed loop: a client has its answer at `end` and sends the next request of the trace."""
    counts, visible_s = state.tally.counts, state.requests.visible_s
    i = counts[NUM_SENT]
    if i < visible_s.size:
        visible_s[i] = end + limits.turnaround_s
        counts[NUM_SENT] = i + 1


@inner
def end_request(state: State, limits: Limits, r: int, end: float) -> None:
    """The step being built computes the last token of `r`; it leaves when the output is seen.

    Where blocks have identities, the order in which requests free theirs matters: running order.
    """
    counts, links = state.tally.counts, state.links
    state.progress.phase[r] = FINISHING
    state.progress.finish_s[r] = end
    counts[NUM_FINISHED] += 1
    if limits.closed_loop:
        send_next(state, limits, end)
    before, after = NONE, counts[ENDING_NOW]
    while limits.identities and after != NONE and links.ticket[after] < links.ticket[r]:
        before, after = after, links.kind_next[after]
    links.kind_next[r] = after
    if before == NONE:
        counts[ENDING_NOW] = r
    else:
        links.kind_next[before] = r


@inner
def commit_decodes(state: State, limits: Limits, end: float) -> None:
    """Move the lockstep by one step and end the decodes whose last step this was."""
    counts, progress, ring = state.tally.counts, state.progress, state.tally.ring
    r = ring[counts[CLOCK] % ring.size]
    while r != NONE:
        after = state.links.kind_next[r]
        leave_lockstep(state, limits, r)
        progress.outputs[r] = state.requests.max_output[r]
        end_request(state, limits, r, end)
        r = after
    counts[CLOCK] += 1
    counts[DECODE_CONTEXT] += counts[NUM_DECODES]


@inner
def commit_chunks(state: State, limits: Limits, end: float) -> None:
    """Chunks are computed; prompts that are complete emit a token and join the decodes."""
    counts, progress, requests = state.tally.counts, state.progress, state.requests
    r = counts[PART_HEAD]
    while r != NONE:
        after = state.links.kind_next[r]
        progress.computed[r] += progress.chunk[r]
        if progress.computed[r] == requests.prompt_tokens[r] + progress.outputs[r]:
            remove_partial(state, r)
            counts[FRUITLESS] = 0
            if progress.outputs[r] == 0:
                progress.first_token_s[r] = end
            else:
                log_own_gap(state, r, end)
            progress.outputs[r] += 1
            if progress.outputs[r] == requests.max_output[r]:
                end_request(state, limits, r, end)
            else:
                join_lockstep(state, limits, r)
        r = after


@inner
def release_finished(state: State, limits: Limits, head: int, transfers: Transfers | None) -> None:
    """The output of a step has been processed: its finished requests give up slot and blocks."""
    counts = state.tally.counts
    r = counts[head]
    while r != NONE:
        if state.progress.phase[r] == FINISHING:
            remove_running(state, r)
            computed = computed_tokens(state, r)
            if limits.identities:
                hash_full_blocks(state, limits, r, computed)
            held = False
            if transfers is not None:
                held = hold_blocks(transfers, state, r)
            if not held:
                free_blocks(state, limits, r, computed)
            state.progress.phase[r] = DONE
        r = state.links.kind_next[r]
    counts[head] = NONE
