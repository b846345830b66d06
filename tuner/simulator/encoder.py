"""Images of the prompts: when the encoder runs, where a chunk is cut, when an output is let go.

Mirrors `_try_schedule_encoder_inputs`, `_allocate_encoder_inputs` and `_free_encoder_inputs` of
`vllm/v1/core/sched/scheduler.py` of vLLM 0.32. A cut chunk can leave several partial prefills in
front of decodes, so the running pass goes through the list (`starved.py`) in every step but the
quiet ones.
"""

from __future__ import annotations

from profiler.compiled import inner
from tuner.simulator.encoder_cache import (
    allocate_output,
    can_allocate,
    check_and_update_cache,
    free_outputs,
)
from tuner.simulator.image_arrays import (
    ABSENT,
    CHUNK,
    LAST_CHUNK,
    LATER,
    NOT_FED,
    NOT_HELD,
    SCHEDULED,
    WANTED,
)
from tuner.simulator.state import (
    BLOCKED,
    CUT_CHUNKS,
    DECODING,
    ENCODER_LEFT,
    ENCODER_TOKENS,
    NONE,
    NUM_FED,
    NUM_HELD,
    NUM_RUNNING,
    PREFILLING,
    RUN_HEAD,
    Limits,
    State,
)


@inner
def schedule_encoder_inputs(state: State, limits: Limits, r: int, computed: int, n: int) -> int:
    """How many of the `n` tokens that `r` could get after `computed` ones it gets: up to the first
    image that cannot be encoded in this step (_try_schedule_encoder_inputs).

    Marks what must be encoded; `settle_encoder_inputs` makes it so, or takes it back.
    """
    images, viewers = state.vision.images, state.vision.viewers
    window_end, encoding = computed + n, 0
    for j in range(viewers.first[r], viewers.end[r]):
        start, k = images.start[j], images.output[j]
        if images.end[j] <= computed:
            continue
        if start >= window_end:
            break
        whole = window_end >= images.end[j]
        if limits.whole_images and computed < start and not whole:
            n = start - computed
            break
        if state.vision.outputs.state[k] == SCHEDULED:
            images.held[j] = WANTED
            continue
        if check_and_update_cache(state, j):
            continue
        left = state.tally.counts[ENCODER_LEFT] - encoding
        if not can_allocate(state, j, left, encoding):
            n = max(0, start - computed)
            break
        images.held[j] = WANTED
        state.vision.outputs.state[k] = SCHEDULED
        encoding += state.vision.outputs.tokens[k]
    viewers.encoding[r] = encoding
    if 0 < n < window_end - computed:
        state.tally.counts[CUT_CHUNKS] += 1
    return n


@inner
def settle_encoder_inputs(state: State, r: int, budget: int, scheduled: bool) -> None:
    """`r` is scheduled or not: its marked images are encoded or forgotten.

    `budget` is what the encoder could do before `r`; what a victim gave back since then is lost
    when `r` encodes anything, as in the engine.
    """
    counts, vision = state.tally.counts, state.vision
    images, outputs, viewers = vision.images, vision.outputs, vision.viewers
    for j in range(viewers.first[r], viewers.end[r]):
        if images.held[j] != WANTED:
            continue
        images.held[j] = NOT_HELD
        k = images.output[j]
        if not scheduled:
            outputs.state[k] = ABSENT
        elif outputs.state[k] == SCHEDULED:
            allocate_output(state, j)
        else:
            check_and_update_cache(state, j)
    if not scheduled:
        viewers.encoding[r] = 0
    if viewers.encoding[r] > 0:
        counts[ENCODER_LEFT] = budget - viewers.encoding[r]
        counts[ENCODER_TOKENS] += viewers.encoding[r]


@inner
def refuse_encoder_inputs(state: State, r: int) -> None:
    """The waiting `r` finds no KV blocks: it lets go of everything (encoder_cache_manager.free)."""
    settle_encoder_inputs(state, r, 0, False)
    free_outputs(state, r, state.requests.prompt_tokens[r])


@inner
def free_viewer(state: State, r: int, refund: int) -> None:
    """`r` is preempted; it gives its encoder tokens of this step back if it gives others back."""
    counts, viewers = state.tally.counts, state.vision.viewers
    if refund > 0:
        counts[ENCODER_LEFT] += viewers.encoding[r]
        counts[ENCODER_TOKENS] -= viewers.encoding[r]
    free_outputs(state, r, state.requests.prompt_tokens[r])
    viewers.part[r], viewers.encoding[r] = NOT_FED, 0


@inner
def free_bound(state: State, limits: Limits, r: int) -> int:
    """Tokens of the prompt whose images `r` needs no more, once the oldest step in flight is seen.

    That is `num_computed_tokens - num_output_placeholders` where it is less than the prompt: the
    tokens scheduled so far count, and the one fed back after a complete prompt does not.
    """
    prompt, progress = state.requests.prompt_tokens[r], state.progress
    if progress.phase[r] == PREFILLING:
        bound = progress.computed[r] + progress.chunk[r]
        complete = bound == prompt + progress.outputs[r]
        return bound - 1 if complete and limits.overlapped else bound
    if progress.phase[r] == DECODING and state.vision.viewers.part[r] == LAST_CHUNK:
        return prompt - 1
    return prompt


@inner
def part_of_step(state: State, r: int) -> int:
    """What the running `r` gets in the step being built."""
    progress = state.progress
    if progress.chunk[r] == 0 or progress.phase[r] not in (PREFILLING, DECODING):
        return NOT_FED
    if progress.phase[r] == DECODING:
        return LATER
    tokens = state.requests.prompt_tokens[r] + progress.outputs[r]
    if progress.computed[r] + progress.chunk[r] < tokens:
        return CHUNK
    return LAST_CHUNK if progress.outputs[r] == 0 else LATER


@inner
def process_images(state: State, limits: Limits) -> None:
    """The output of the oldest step in flight is processed: images it completed are let go
    (_free_encoder_inputs, and `free` of the finished). Call after schedule(), before the commit."""
    counts, viewers = state.tally.counts, state.vision.viewers
    counts[NUM_FED] = 0
    r = counts[RUN_HEAD]
    while r != NONE:
        if viewers.end[r] > viewers.first[r]:
            part = part_of_step(state, r)
            if not limits.overlapped:
                viewers.part[r] = part
            if viewers.part[r] != NOT_FED:
                free_outputs(state, r, free_bound(state, limits, r))
            viewers.part[r], viewers.encoding[r] = part, 0
            counts[NUM_FED] += 1 if part != NOT_FED else 0
        r = state.links.order_next[r]
    counts[ENCODER_LEFT], counts[ENCODER_TOKENS] = limits.encoder_budget, 0


@inner
def images_rest(state: State, limits: Limits) -> bool:
    """Whether quiet steps cannot change which images can be encoded: nobody holds an output, and
    nobody who could be admitted waits."""
    counts = state.tally.counts
    knocking = counts[BLOCKED] == 1 and counts[NUM_RUNNING] < limits.max_active
    return counts[NUM_HELD] == 0 and not knocking
