"""Arrays of the images in the prompts and of the encoder cache.

M is the number of images, K of distinct ones, N of requests. Made by `image_build.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

# Indices of Vision.counts.
ENCODER_LEFT = 0  # tokens the encoder may still compute in the step being built
ENCODER_TOKENS = 1  # tokens it computes in that step
ENCODER_FREE = 2  # unused tokens of the encoder cache (num_free_slots)
ENCODER_FREEABLE = 3  # those and the ones nobody holds (num_freeable_slots)
OLDEST_OUTPUT = 4  # queue of encoder outputs that nobody holds
NEWEST_OUTPUT = 5
NUM_HELD = 6  # images that hold an output
NUM_FED = 7  # requests with images in the step whose output has not been processed
ENCODER_RUN = 8  # tokens the encoder has computed in all steps
ENCODER_HITS = 9  # images whose output was cached
ENCODER_EVICTIONS = 10  # outputs thrown out of the cache
CUT_CHUNKS = 11  # chunks that end before an image that had to wait
NUM_VISION_COUNTS = 12

EVERYTHING = 1 << 62
"""a position behind every prompt"""

# Image.held
NOT_HELD = 0
HELD = 1  # its request holds the encoder's output of it (request_cached_ids)
WANTED = 2  # to be held as soon as the request has its KV blocks

# Output.state
ABSENT = 0
CACHED = 1
SCHEDULED = 2  # is to be computed for the request that is being scheduled

# Viewer.part
NOT_FED = 0
CHUNK = 1  # a chunk that does not complete the prompt
LAST_CHUNK = 2  # one that completes it, before the first output
LATER = 3  # a token, or the last chunk of a request that has outputs


class Image(NamedTuple):
    """Per image, request after request, in order of position."""

    start: IntArray
    """(M,) position in the prompt"""
    end: IntArray
    """(M,) position after its last token"""
    output: IntArray
    """(M,) which distinct image it is, 0 .. K-1"""
    held: IntArray
    """(M,) NOT_HELD, HELD or WANTED; written by `encoder_cache.py` and `encoder.py`"""


class Output(NamedTuple):
    """Per distinct image: the encoder's output; written by `encoder_cache.py`, `encoder.py`."""

    tokens: IntArray
    """(K,)"""
    state: IntArray
    """(K,) ABSENT, CACHED or SCHEDULED"""
    uses: IntArray
    """(K,) images that hold it; a cached one without uses is in the freeable queue"""
    free_prev: IntArray
    """(K,) freeable queue; its ends are OLDEST_OUTPUT and NEWEST_OUTPUT of Vision.counts"""
    free_next: IntArray
    """(K,) the same"""


class Viewer(NamedTuple):
    """Per request; written by `encoder.py`."""

    first: IntArray
    """(N,) its first image"""
    end: IntArray
    """(N,) the image after its last one"""
    encoding: IntArray
    """(N,) tokens that the encoder computes for it in the step being built"""
    part: IntArray
    """(N,) what it got in the step whose output has not been processed; NOT_FED for nothing"""


class Vision(NamedTuple):
    """All of it."""

    images: Image
    outputs: Output
    viewers: Viewer
    counts: IntArray
    """(NUM_VISION_COUNTS,) see the indices above"""


assert NEWEST_OUTPUT == OLDEST_OUTPUT + 1
