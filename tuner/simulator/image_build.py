"""From the images of a trace to what the kernels read: limits, arrays, and block keys."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from profiler.errors import KnobError
from profiler.traffic.images import Images
from profiler.traffic.trace import Trace
from tuner.simulator.image_arrays import (
    CUT_CHUNKS,
    ENCODER_EVICTIONS,
    ENCODER_FREE,
    ENCODER_FREEABLE,
    ENCODER_HITS,
    ENCODER_LEFT,
    ENCODER_RUN,
    NEWEST_OUTPUT,
    NUM_VISION_COUNTS,
    OLDEST_OUTPUT,
    Image,
    IntArray,
    Output,
    Viewer,
    Vision,
)
from tuner.simulator.memory import as_records
from tuner.simulator.prefix_keys import chain_words, mix, prefix_blocks
from tuner.simulator.state import NONE, Limits


class EncoderSize(NamedTuple):
    """What the engine reserves for the encoder of a multimodal model, image tokens."""

    budget_tokens: int
    """most image tokens that the encoder computes in a step"""
    cache_tokens: int
    """image tokens whose encoder outputs are kept"""


class EncoderUse(NamedTuple):
    """What images cost; zeros for text."""

    computed_tokens: int
    """image tokens that the encoder computed"""
    hits: int
    """images whose encoder output was in the cache"""
    evictions: int
    """encoder outputs that left the cache for others"""
    cut_chunks: int
    """chunks that end before an image that had to wait for the encoder"""


def images_of(trace: Trace) -> Images | None:
    """The images of `trace`; None when it has none at all."""
    return trace.images if trace.images is not None and trace.images.num else None


def encoder_size(limits: Limits, trace: Trace, given: EncoderSize | None) -> EncoderSize | None:
    """The encoder's reserves, `given` or as the engine derives them; None for text.

    vLLM 0.32 takes max_num_batched_tokens for both (`SchedulerConfig.__post_init__`), raised to the
    largest item of the *model* (`compute_mm_encoder_budget`). A trace tells only its own largest
    image, so a model that takes larger ones than the traffic has needs `given`.

    Raises
    ------
    KnobError
        An image fits neither the encoder nor, where it may not be cut, the step.
    """
    images = images_of(trace)
    if images is None:
        return None
    largest = int(images.tokens.max())
    batched = limits.adaptive_budget
    encoder = given or EncoderSize(max(batched, largest), max(batched, largest))
    if largest > min(encoder):
        raise KnobError(
            f"the encoder's budget and cache must hold the largest image, got {encoder} and an "
            f"image of {largest} tokens; raise them or cut the trace"
        )
    if limits.whole_images and largest > batched:
        raise KnobError(
            "max_num_batched_tokens must be at least the largest image when "
            f"disable_chunked_mm_input is true, got {batched} and {largest}; raise the budget "
            "or allow chunks inside images"
        )
    return encoder


def build_vision(
    trace: Trace, accepted: npt.NDArray[np.bool_], encoder: EncoderSize | None
) -> Vision | None:
    """Images of the accepted requests, nothing encoded yet; None for text."""
    images = images_of(trace)
    if images is None or encoder is None:
        return None
    owned = images.take(np.flatnonzero(accepted))
    _, first, which = np.unique(owned.identity, return_index=True, return_inverse=True)
    n, num = owned.offsets.size - 1, first.size

    def fill(size: int, value: int) -> IntArray:
        return np.full(size, value, dtype=np.int64)

    counts = fill(NUM_VISION_COUNTS, 0)
    counts[OLDEST_OUTPUT] = counts[NEWEST_OUTPUT] = NONE
    counts[ENCODER_LEFT] = encoder.budget_tokens
    counts[ENCODER_FREE] = counts[ENCODER_FREEABLE] = encoder.cache_tokens
    outputs = Output(owned.tokens[first], fill(num, 0), fill(num, 0), *[fill(num, NONE)] * 2)
    end = owned.start + owned.tokens
    return Vision(
        as_records(Image(owned.start, end, which.astype(np.int64), fill(owned.num, 0))),
        as_records(outputs),
        as_records(Viewer(owned.offsets[:-1], owned.offsets[1:], fill(n, 0), fill(n, 0))),
        counts,
    )


@lru_cache(maxsize=4)
def fold_images(trace: Trace, block_tokens: int) -> Trace:
    """`trace` with the images in its prefix hashes, one hash per full KV block.

    In vLLM 0.32 a block's hash has the identities and places of the images in it, and through the
    chain those of all images before (`_gen_mm_extra_hash_keys` in `vllm/v1/core/kv_cache_utils.py`;
    the tokens of an image are the same placeholder in all prompts). The rule of `prefix_keys` for
    which blocks are the same otherwise is applied here, block by block.
    """
    images, offsets = images_of(trace), trace.prefix_offsets
    if images is None or offsets is None or not trace.prefix_block_tokens:
        return trace
    size, n = trace.prefix_block_tokens, trace.num_requests
    covered = np.minimum(trace.prompt_tokens, np.diff(offsets) * size)
    blocks = covered // block_tokens
    ends = np.cumsum(blocks)
    owner = np.repeat(np.arange(n), blocks)
    number = np.arange(owner.size) - (ends - blocks)[owner]
    last = (number + 1) * block_tokens - 1
    text = prefix_blocks(trace).ids[offsets[:-1][owner] + last // size]
    chain = chain_words(
        mix(images.identity.astype(np.uint64) + mix(images.start.astype(np.uint64))),
        images.offsets,
    )
    far = int(trace.prompt_tokens.max())
    seen = np.searchsorted(images.owner * far + images.start, owner * far + last, side="right")
    before = seen > images.offsets[:-1][owner]
    digest = np.zeros(owner.size, dtype=np.uint64)
    digest[before] = chain[seen[before] - 1]
    return replace(
        trace,
        prefix_hashes=mix(text.astype(np.uint64) + digest).astype(np.int64),
        prefix_offsets=np.concatenate(([0], ends)).astype(np.int64),
        prefix_block_tokens=block_tokens,
    )


def encoder_use(vision: Vision | None) -> EncoderUse:
    """What the run's encoder did."""
    if vision is None:
        return EncoderUse(0, 0, 0, 0)
    used = (ENCODER_RUN, ENCODER_HITS, ENCODER_EVICTIONS, CUT_CHUNKS)
    return EncoderUse(*(int(vision.counts[i]) for i in used))
