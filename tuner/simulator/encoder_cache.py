"""The cache of the encoder's outputs, by image, with references and a queue of freeable ones.

Mirrors `EncoderCacheManager` of vLLM 0.32 (`vllm/v1/core/encoder_cache_manager.py`). That keeps a
set of requests per output, each until the last of its images that hold the output is freed; here
the images are counted, which is zero at the same moments.
"""

from __future__ import annotations

from profiler.compiled import inner
from tuner.simulator.image_arrays import (
    ABSENT,
    CACHED,
    ENCODER_EVICTIONS,
    ENCODER_FREE,
    ENCODER_FREEABLE,
    ENCODER_HITS,
    HELD,
    NOT_HELD,
    NUM_HELD,
    OLDEST_OUTPUT,
    Vision,
)
from tuner.simulator.lists import append, remove


@inner
def check_and_update_cache(vision: Vision, j: int) -> bool:
    """Whether the output of image `j` is cached; if so, the image holds it from now on."""
    counts, images, outputs = vision.counts, vision.images, vision.outputs
    k = images.output[j]
    if outputs.state[k] != CACHED:
        return False
    if outputs.uses[k] == 0:
        remove(counts, outputs.free_prev, outputs.free_next, OLDEST_OUTPUT, k)
        counts[ENCODER_FREEABLE] -= outputs.tokens[k]
    if images.held[j] != HELD:
        images.held[j] = HELD
        outputs.uses[k] += 1
        counts[NUM_HELD] += 1
        counts[ENCODER_HITS] += 1
    return True


@inner
def can_allocate(vision: Vision, j: int, budget: int, scheduled: int) -> bool:
    """Whether image `j` may be encoded beside `scheduled` tokens of images of the same request.

    Evicts the oldest freeable outputs when only they leave room.
    """
    counts, outputs = vision.counts, vision.outputs
    tokens = outputs.tokens[vision.images.output[j]]
    if tokens > budget:
        return False
    tokens += scheduled
    if tokens > counts[ENCODER_FREE] and tokens > counts[ENCODER_FREEABLE]:
        return False
    while tokens > counts[ENCODER_FREE]:
        k = counts[OLDEST_OUTPUT]
        remove(counts, outputs.free_prev, outputs.free_next, OLDEST_OUTPUT, k)
        outputs.state[k] = ABSENT
        counts[ENCODER_FREE] += outputs.tokens[k]
        counts[ENCODER_EVICTIONS] += 1
    return True


@inner
def allocate_output(vision: Vision, j: int) -> None:
    """Image `j` is encoded in this step; it holds the output, which takes its place (allocate)."""
    counts, outputs = vision.counts, vision.outputs
    k = vision.images.output[j]
    outputs.state[k], outputs.uses[k] = CACHED, 1
    counts[ENCODER_FREE] -= outputs.tokens[k]
    counts[ENCODER_FREEABLE] -= outputs.tokens[k]
    vision.images.held[j] = HELD
    counts[NUM_HELD] += 1


@inner
def free_outputs(vision: Vision, r: int, bound: int) -> None:
    """`r` lets go of the outputs of its images that end at `bound` or before.

    Several at once become freeable in order of position. The engine iterates over a Python set of
    image numbers, which is that order up to eight images and arbitrary beyond.
    """
    counts, images, outputs = vision.counts, vision.images, vision.outputs
    for j in range(vision.viewers.first[r], vision.viewers.end[r]):
        if images.held[j] != HELD or images.end[j] > bound:
            continue
        images.held[j] = NOT_HELD
        counts[NUM_HELD] -= 1
        k = images.output[j]
        outputs.uses[k] -= 1
        if outputs.uses[k] == 0:
            append(counts, outputs.free_prev, outputs.free_next, OLDEST_OUTPUT, k)
            counts[ENCODER_FREEABLE] += outputs.tokens[k]
