"""Batch shapes to compare the tables with their source on, and to mark the sampled region."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiler.engines.silicon.published import Published
from profiler.engines.silicon.tabulate import Extent
from profiler.latency.params import FloatArray, IntArray
from profiler.latency.step_time import CHUNK_ONLY, DECODE_ONLY, MIXED
from profiler.steps import AFTER_CHUNKS, AFTER_DECODES, StepSamples

_MOST_PROMPTS = 16


@dataclass(frozen=True)
class Shapes:
    """S steps of equal chunks and equal decodes; (S,) each."""

    prompts: IntArray
    chunk: IntArray
    """tokens per prompt"""
    cached: IntArray
    """tokens computed before, per prompt"""
    decodes: IntArray
    context: IntArray
    """tokens per decode"""


def random_shapes(
    num: int, extent: Extent, kv_tokens: int, *, one_chunk_when_mixed: bool, seed: int
) -> Shapes:
    """`num` shapes, a third of each kind, every size evenly spread in its logarithm, and only what
    the KV pool holds; and the largest of each kind.

    `one_chunk_when_mixed` is for models whose source sums the cached tokens of all chunks.
    """
    rng = np.random.default_rng(seed)
    kind = np.arange(num + 3) % 3
    largest = np.arange(num + 3) >= num
    u = np.where(largest[:, None], 1.0, rng.random((num + 3, 5)))
    chunks, decoding = kind != DECODE_ONLY, kind != CHUNK_ONLY
    prompts = _log_between(_MOST_PROMPTS, u[:, 0])
    prompts[largest | ((kind == MIXED) & one_chunk_when_mixed)] = 1
    chunk = np.maximum(1, _log_between(extent.tokens, u[:, 1]) // prompts)
    deepest = np.maximum(1, np.minimum(extent.depth - chunk, kv_tokens // prompts))
    decodes = _log_between(extent.decodes, u[:, 3])
    longest = np.minimum(extent.depth, np.maximum(1, kv_tokens // decodes))
    return Shapes(
        prompts=np.where(chunks, prompts, 0),
        chunk=np.where(chunks, chunk, 0),
        cached=np.where(chunks, _log_between(deepest, u[:, 2]) - 1, 0),
        decodes=np.where(decoding, decodes, 0),
        context=np.where(decoding, _log_between(longest, u[:, 4]), 0),
    )


def _log_between(high: int | IntArray, u: FloatArray) -> IntArray:
    """Whole numbers from 1 to `high`, evenly spread in their logarithm."""
    return np.rint(np.asarray(high, dtype=np.float64) ** u).astype(np.int64)


def published_s(published: Published, shapes: Shapes) -> FloatArray:
    """(S,) GPU seconds that the source gives for each shape."""
    rows = zip(
        shapes.prompts.tolist(),
        (shapes.prompts * shapes.chunk).tolist(),
        (shapes.prompts * shapes.cached).tolist(),
        shapes.decodes.tolist(),
        (shapes.decodes * shapes.context).tolist(),
        strict=True,
    )
    return np.array([published.step_ms(*row) for row in rows]) * 1e-3


def as_samples(shapes: Shapes, seconds: FloatArray) -> StepSamples:
    """The shapes as steps that took `seconds`, each of another configuration."""
    tokens = shapes.prompts * shapes.chunk
    num = seconds.size
    return StepSamples(
        prefill_tokens=tokens,
        num_prefills=shapes.prompts,
        attention_pairs=tokens * (shapes.cached + (shapes.chunk + 1) / 2),
        chunk_context=shapes.prompts * shapes.cached,
        num_decodes=shapes.decodes,
        decode_context=shapes.decodes * shapes.context,
        follows=np.where(tokens > 0, AFTER_CHUNKS, AFTER_DECODES),
        exec_s=seconds,
        interval_s=np.full(num, np.nan),
        schedule_s=np.zeros(num),
        num_running=shapes.prompts + shapes.decodes,
        num_waiting=np.zeros(num, dtype=np.int64),
        free_blocks=np.zeros(num, dtype=np.int64),
        start_s=np.zeros(num),
        speed=np.ones(num),
        configuration=np.arange(num),
        is_sentinel=np.zeros(num, dtype=np.bool_),
    )
