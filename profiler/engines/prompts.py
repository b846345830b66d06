"""Made-up prompts: token ids from a seed, shared where the recorded prompts shared a prefix."""

from __future__ import annotations

import numpy as np

from profiler.engines.base import IntArray, Requests

_MASK = (1 << 64) - 1


def make_prompt(requests: Requests, index: int, vocab_size: int, replay: int) -> list[int]:
    """Token ids of request `index`.

    Prompts with equal leading prefix hashes start with equal tokens, so that an engine's prefix
    cache hits what it would have hit. Other tokens differ between requests and between replays
    (`replay` is their running number): nothing is found in the cache by chance or from before.
    """
    length = int(requests.prompt_tokens[index])
    tokens = _draw([requests.seed, replay, index], vocab_size, length)
    hashes, offsets, size = (
        requests.prefix_hashes,
        requests.prefix_offsets,
        requests.prefix_block_tokens,
    )
    if hashes is not None and offsets is not None and size:
        for k, value in enumerate(hashes[offsets[index] : offsets[index + 1]].tolist()):
            part = tokens[k * size : (k + 1) * size]
            part[:] = _draw([requests.seed, replay, value & _MASK, 1], vocab_size, size)[
                : part.size
            ]
    ids: list[int] = tokens.tolist()
    return ids


def _draw(seed: list[int], vocab_size: int, count: int) -> IntArray:
    return np.random.default_rng(seed).integers(0, vocab_size, count)
