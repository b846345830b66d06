"""What a step with drafts is, and what its output changes.

Mirrors `Scheduler._update_after_schedule`, `update_from_output` and their asynchronous forms in
vLLM 0.32: drafts count as computed when they are scheduled, rejected ones are taken back when the
output is seen, and accepted ones appear together with the token that the step samples.
"""

from __future__ import annotations

from profiler.compiled import inner
from profiler.latency.step_time import BatchShape
from profiler.steps import AFTER_IDLE
from tuner.simulator.commit import send_next
from tuner.simulator.drafts import (
    ACCEPTED,
    DRAFTED,
    NO_TOKEN,
    Drafts,
    count_accepted,
    known_tokens,
)
from tuner.simulator.encoder_release import (
    close_encoder_step,
    encoder_tokens,
    free_passed_images,
    free_viewer,
)
from tuner.simulator.lists import remove_running
from tuner.simulator.record import record_part
from tuner.simulator.speculative_gaps import log_extra, log_tokens
from tuner.simulator.state import (
    DECODING,
    DONE,
    FOLLOWS,
    FRUITLESS,
    LAST_END,
    NONE,
    NUM_FINISHED,
    NUM_GAPS,
    NUM_STEPS,
    PREFILLING,
    RECORDING,
    RUN_HEAD,
    SCHEDULE_AT,
    Limits,
    State,
)
from tuner.simulator.tables import free_table, hash_full_blocks


@inner
def describe_drafts(state: State) -> BatchShape:
    """The batch that has just been scheduled. A decode with drafts counts as so many decodes of
    one context: every token passes the layers, but the KV is read once."""
    counts, times, progress = state.tally.counts, state.tally.times, state.progress
    tokens, prompts, pairs, context = 0, 0, 0.0, 0
    decodes, decode_context = 0, 0
    r = counts[RUN_HEAD]
    while r != NONE:
        n, before = progress.chunk[r], progress.computed[r]
        if n > 0 and progress.phase[r] == PREFILLING:
            tokens += n
            prompts += 1
            pairs += n * (before + 0.5 * (n + 1))
            context += before
        elif n > 0:
            decodes += n
            decode_context += before
        r = state.links.order_next[r]
    idle = times[SCHEDULE_AT] > times[LAST_END]
    follows = AFTER_IDLE if idle else counts[FOLLOWS]
    encoded = encoder_tokens(state.vision)
    return BatchShape(tokens, prompts, pairs, context, decodes, decode_context, follows, encoded)


@inner
def launch(state: State, drafts: Drafts, limits: Limits) -> None:
    """The scheduled step starts: note who is in it, what was drafted and what will be accepted."""
    counts, progress = state.tally.counts, state.progress
    slot = counts[NUM_STEPS] % 2
    place = slot * limits.max_active
    r = counts[RUN_HEAD]
    while r != NONE:
        n = progress.chunk[r]
        if n > 0:
            if counts[RECORDING] == 1:
                record_part(state, r, n, progress.computed[r])
            drafts.request[place] = r
            draft_and_accept(state, drafts, limits, r, place)
            place += 1
        r = state.links.order_next[r]
    drafts.sizes[slot] = place - slot * limits.max_active
    close_encoder_step(state.vision, limits)


@inner
def draft_and_accept(state: State, drafts: Drafts, limits: Limits, r: int, place: int) -> None:
    """Write the drafts of `r` in this step and how many are accepted; move `r` on.

    The drafts of a request that starts are padding, which is never accepted.
    """
    progress, n = state.progress, state.progress.chunk[r]
    progress.computed[r] += n
    num, accepted = n - 1, 0
    if progress.phase[r] == PREFILLING:
        num = progress.computed[r] - known_tokens(state, r)
        if num < 0:
            num, accepted = 0, NO_TOKEN
        else:
            progress.phase[r] = DECODING
    elif num > 0:
        accepted = count_accepted(drafts, limits, r, num)
        drafts.verified[r] += 1
        drafts.totals[ACCEPTED] += accepted
    drafts.totals[DRAFTED] += num
    drafts.drafted[place], drafts.accepted[place] = num, accepted
    drafts.coming[r] = 1 + accepted


@inner
def see_output(state: State, drafts: Drafts, limits: Limits, slot: int) -> None:
    """The output of the step in `slot` is processed, in the engine's order."""
    first_gap = state.tally.counts[NUM_GAPS]
    place = slot * limits.max_active
    for i in range(place, place + drafts.sizes[slot]):
        r = drafts.request[i]
        if state.progress.phase[r] == DONE:
            continue
        if drafts.accepted[i] != NO_TOKEN and state.progress.phase[r] == DECODING:
            state.progress.computed[r] -= drafts.drafted[i] - drafts.accepted[i]
        free_passed_images(state.vision, state, limits, r)
        if drafts.accepted[i] != NO_TOKEN:
            take_tokens(state, drafts, limits, i, first_gap)
    drafts.sizes[slot] = 0
    log_extra(state, drafts)


@inner
def take_tokens(state: State, drafts: Drafts, limits: Limits, i: int, first_gap: int) -> None:
    """The request at place `i` gets its tokens, a preempted one too; it may end within them."""
    progress, r, end = state.progress, drafts.request[i], drafts.ends[i // limits.max_active]
    tokens = min(1 + drafts.accepted[i], state.requests.max_output[r] - progress.outputs[r])
    log_tokens(state, r, end, first_gap)
    drafts.extra[state.requests.klass[r]] += tokens - 1
    progress.outputs[r] += tokens
    state.tally.counts[FRUITLESS] = 0
    running = progress.phase[r] == DECODING
    if running and limits.overlapped and limits.caching:
        hash_full_blocks(state, limits, r, known_tokens(state, r) - 1)
    if progress.outputs[r] == state.requests.max_output[r]:
        progress.finish_s[r] = end
        state.tally.counts[NUM_FINISHED] += 1
        if limits.closed_loop:
            send_next(state, limits, end)
        if running:
            remove_running(state, r)
            free_viewer(state.vision, r, 0)
            free_table(state, r)
        progress.phase[r] = DONE
