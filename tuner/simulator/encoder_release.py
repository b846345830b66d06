"""After a step: which encoder outputs its images need no more.

Mirrors `_free_encoder_inputs`, `_free_request` and `_preempt_request` of
`vllm/v1/core/sched/scheduler.py` of vLLM 0.32. `vision` is None for text, see `encoder.py`.
"""

from __future__ import annotations

from profiler.compiled import inner
from tuner.simulator.encoder_cache import free_outputs
from tuner.simulator.image_arrays import (
    CHUNK,
    ENCODER_LEFT,
    ENCODER_RUN,
    ENCODER_TOKENS,
    EVERYTHING,
    LAST_CHUNK,
    LATER,
    NOT_FED,
    NUM_FED,
    NUM_HELD,
    Vision,
)
from tuner.simulator.state import (
    BLOCKED,
    DECODING,
    NONE,
    NUM_RUNNING,
    PREFILLING,
    RUN_HEAD,
    Limits,
    State,
)


@inner
def free_viewer(vision: Vision | None, r: int, refund: int) -> None:
    """`r` is preempted; it gives its encoder tokens of this step back if it gives others back."""
    if vision is None:
        return
    counts, viewers = vision.counts, vision.viewers
    if refund > 0:
        counts[ENCODER_LEFT] += viewers.encoding[r]
        counts[ENCODER_TOKENS] -= viewers.encoding[r]
    free_outputs(vision, r, EVERYTHING)
    viewers.part[r], viewers.encoding[r] = NOT_FED, 0


@inner
def free_bound(vision: Vision, state: State, limits: Limits, r: int) -> int:
    """Tokens of the prompt whose images `r` needs no more, once the oldest step in flight is seen.

    That is `num_computed_tokens - num_output_placeholders` where it is less than the prompt: the
    tokens scheduled so far count, and the one fed back after a complete prompt does not.
    """
    prompt, progress = state.requests.prompt_tokens[r], state.progress
    if progress.phase[r] == PREFILLING:
        bound = progress.computed[r] + progress.chunk[r]
        complete = bound == prompt + progress.outputs[r]
        return bound - 1 if complete and limits.overlapped else bound
    if progress.phase[r] == DECODING and vision.viewers.part[r] == LAST_CHUNK:
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
def process_images(vision: Vision | None, state: State, limits: Limits) -> None:
    """The output of the oldest step in flight is processed: images it completed are let go
    (_free_encoder_inputs, and `free` of the finished). Call after schedule(), before the commit."""
    if vision is None:
        return
    counts, viewers = vision.counts, vision.viewers
    counts[NUM_FED] = 0
    r = state.tally.counts[RUN_HEAD]
    while r != NONE:
        if viewers.end[r] > viewers.first[r]:
            part = part_of_step(state, r)
            if not limits.overlapped:
                viewers.part[r] = part
            if viewers.part[r] != NOT_FED:
                free_outputs(vision, r, free_bound(vision, state, limits, r))
            viewers.part[r], viewers.encoding[r] = part, 0
            counts[NUM_FED] += 1 if part != NOT_FED else 0
        r = state.links.order_next[r]
    close_encoder_step(vision, limits)


@inner
def close_encoder_step(vision: Vision | None, limits: Limits) -> None:
    """The step is built: count what the encoder computes in it; the next one has all its budget."""
    if vision is None:
        return
    counts = vision.counts
    counts[ENCODER_RUN] += counts[ENCODER_TOKENS]
    counts[ENCODER_LEFT], counts[ENCODER_TOKENS] = limits.encoder_budget, 0


@inner
def free_passed_images(vision: Vision | None, state: State, limits: Limits, r: int) -> None:
    """With drafts: the output of a step of `r` is processed, its rejected drafts are taken back and
    its tokens not added yet. Images that `r` and the drafter are past are let go
    (_free_encoder_inputs)."""
    if vision is None:
        return
    phase, bound = state.progress.phase[r], state.progress.computed[r]
    if phase == DECODING and limits.overlapped:
        bound = state.requests.prompt_tokens[r] + state.progress.outputs[r] - 1
    if phase in (PREFILLING, DECODING):
        free_outputs(vision, r, bound - limits.reads_ahead)


@inner
def images_in_flight(vision: Vision | None, limits: Limits) -> bool:
    """Whether the output of a step in flight can still free encoder outputs."""
    if vision is None:
        return False
    return limits.overlapped and vision.counts[NUM_FED] > 0


@inner
def images_rest(vision: Vision | None, state: State, limits: Limits) -> bool:
    """Whether quiet steps cannot change which images can be encoded: nobody holds an output, and
    nobody who could be admitted waits."""
    if vision is None:
        return True
    counts = state.tally.counts
    knocking = counts[BLOCKED] == 1 and counts[NUM_RUNNING] < limits.max_active
    return vision.counts[NUM_HELD] == 0 and not knocking


@inner
def encoder_tokens(vision: Vision | None) -> int:
    """Image tokens that the encoder computes in the step being built."""
    return 0 if vision is None else vision.counts[ENCODER_TOKENS]


@inner
def encoding_of(vision: Vision | None, r: int) -> int:
    """Image tokens of `r` among them, while it prefills."""
    return 0 if vision is None else vision.viewers.encoding[r]
