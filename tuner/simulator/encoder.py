"""Images of the prompts: when the encoder runs, and where a chunk is cut.

Mirrors `_try_schedule_encoder_inputs` and `_allocate_encoder_inputs` of
`vllm/v1/core/sched/scheduler.py` of vLLM 0.32. A cut chunk can leave several partial prefills in
front of decodes, so the running pass goes through the list (`starved.py`) in every step but the
quiet ones.

`vision` is None for text. Every function that other modules call has it as an argument and looks at
that first: numba then leaves the rest out, so that the kernels for text compile a fifth faster than
those for images, which are compiled when first needed.
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
    CUT_CHUNKS,
    ENCODER_LEFT,
    ENCODER_TOKENS,
    EVERYTHING,
    NOT_HELD,
    SCHEDULED,
    WANTED,
    Vision,
)
from tuner.simulator.state import Limits


@inner
def schedule_encoder_inputs(
    vision: Vision | None, limits: Limits, r: int, computed: int, n: int
) -> int:
    """How many of the `n` tokens that `r` could get after `computed` ones it gets: up to the first
    image that cannot be encoded in this step (_try_schedule_encoder_inputs).

    A drafter that reads ahead needs the images behind the chunk encoded as well. Marks what must be
    encoded; `settle_encoder_inputs` makes it so, or takes it back.
    """
    if vision is None:
        return n
    images, outputs, viewers = vision.images, vision.outputs, vision.viewers
    window_end, encoding = computed + n, 0
    reached = computed + limits.reads_ahead
    for j in range(viewers.first[r], viewers.end[r]):
        start, k = images.start[j], images.output[j]
        if images.end[j] <= computed:
            continue
        if start >= window_end + limits.reads_ahead:
            break
        whole = window_end >= images.end[j]
        if limits.whole_images and computed < start and not whole:
            n = max(0, start - reached)
            break
        if outputs.state[k] == SCHEDULED:
            images.held[j] = WANTED
            continue
        if check_and_update_cache(vision, j):
            continue
        left = vision.counts[ENCODER_LEFT] - encoding
        if not can_allocate(vision, j, left, encoding):
            n = max(0, start - reached)
            break
        images.held[j] = WANTED
        outputs.state[k] = SCHEDULED
        encoding += outputs.tokens[k]
    viewers.encoding[r] = encoding
    if 0 < n < window_end - computed:
        vision.counts[CUT_CHUNKS] += 1
    return n


@inner
def settle_encoder_inputs(vision: Vision | None, r: int, budget: int, scheduled: bool) -> None:
    """`r` is scheduled or not: its marked images are encoded or forgotten.

    `budget` is what the encoder could do before `r`; what a victim gave back since then is lost
    when `r` encodes anything, as in the engine.
    """
    if vision is None:
        return
    counts, images, outputs, viewers = vision.counts, vision.images, vision.outputs, vision.viewers
    for j in range(viewers.first[r], viewers.end[r]):
        if images.held[j] != WANTED:
            continue
        images.held[j] = NOT_HELD
        k = images.output[j]
        if not scheduled:
            outputs.state[k] = ABSENT
        elif outputs.state[k] == SCHEDULED:
            allocate_output(vision, j)
        else:
            check_and_update_cache(vision, j)
    if not scheduled:
        viewers.encoding[r] = 0
    if viewers.encoding[r] > 0:
        counts[ENCODER_LEFT] = budget - viewers.encoding[r]
        counts[ENCODER_TOKENS] += viewers.encoding[r]


@inner
def refuse_encoder_inputs(vision: Vision | None, r: int) -> None:
    """The waiting `r` finds no KV blocks: it lets go of everything (encoder_cache_manager.free)."""
    if vision is None:
        return
    settle_encoder_inputs(vision, r, 0, False)
    free_outputs(vision, r, EVERYTHING)


@inner
def encoder_left(vision: Vision | None) -> int:
    """Image tokens that the encoder may still compute in the step being built."""
    return 0 if vision is None else vision.counts[ENCODER_LEFT]
