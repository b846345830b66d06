"""The compiled step-latency model: batch shape -> seconds.

One function, called by `StepTimeModel.predict` and by the simulator, so that the fitted and the
simulated latency model cannot drift apart.

The plain form is a sum of non-negative roofline terms (Williams, Waterman and Patterson, "Roofline:
an insightful visual performance model", CACM 52(4), 2009): memory traffic and arithmetic each grow
linearly in tokens or in tokens of context, and the linear layers change slope where arithmetic
overtakes the reading of the weights. Tables of step times (`profiler.latency.tabulated`) may stand
in its place. A small table of factors per kind of step may correct either.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from profiler.compiled import compiled, inner
from profiler.latency.params import GRID, StepTimeParams
from profiler.latency.tabulated import bilinear, tabulated_time
from profiler.steps import AFTER_CHUNKS, AFTER_DECODES, AFTER_IDLE

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

DECODE_ONLY = 0
"""a step without prompt chunks"""
CHUNK_ONLY = 1
"""a step without decodes"""
MIXED = 2
"""a step with both"""
REGION_NAMES = ("decode-only", "chunk-only", "mixed")


class BatchShape(NamedTuple):
    """What one step processes; the scalars that its time depends on."""

    prefill_tokens: int
    """tokens of prompt chunks"""
    num_prefills: int
    """prompts that get a chunk"""
    attention_pairs: float
    """sum over chunks of n * (before + (n + 1) / 2): query-key pairs of the chunks"""
    chunk_context: int
    """tokens already computed of those prompts, summed"""
    num_decodes: int
    """tokens of decodes: one per request, and its draft tokens where it has some. A draft passes
    the layers and the sampler like a decode; the context is read once per request."""
    decode_context: int
    """sum over requests that decode of the tokens computed before the step"""
    follows: int
    """AFTER_DECODES, AFTER_CHUNKS or AFTER_IDLE: a change of kind finds caches and threads cold"""
    encoder_tokens: int = 0
    """image tokens that the encoder computes in this step, before the model runs"""


@inner
def step_region(batch: BatchShape) -> int:
    """DECODE_ONLY, CHUNK_ONLY or MIXED."""
    if batch.prefill_tokens == 0:
        return DECODE_ONLY
    if batch.num_decodes == 0:
        return CHUNK_ONLY
    return MIXED


@inner
def roofline_time(params: StepTimeParams, batch: BatchShape) -> float:
    """Sum of the roofline terms, at least the floor; seconds."""
    tokens = float(batch.prefill_tokens + batch.num_decodes)
    seconds = (
        params.constant_s
        + params.per_prefill_token_s * batch.prefill_tokens
        + params.per_decode_s * batch.num_decodes
        + params.per_attention_pair_s * batch.attention_pairs
        + params.per_decode_context_s * batch.decode_context
        + params.per_prefill_s * batch.num_prefills
        + params.per_chunk_context_s * batch.chunk_context
        + params.above_knee_s * max(0.0, tokens - params.upper_knee)
        + params.below_knee_s * min(tokens, params.lower_knee)
    )
    if batch.prefill_tokens > 0:
        seconds += params.with_prefill_s
        if batch.num_decodes > 0:
            seconds += (
                params.mixed_s
                + params.mixed_per_decode_s * batch.num_decodes
                + params.mixed_per_context_s * batch.decode_context
            )
    return max(params.floor_s, seconds + cold_time(params, batch))


@inner
def cold_time(params: StepTimeParams, batch: BatchShape) -> float:
    """What a change of kind costs: a step after one of another kind, or after none; seconds."""
    if batch.prefill_tokens == 0:
        return 0.0 if batch.follows == AFTER_DECODES else params.cold_decode_s
    if batch.follows == AFTER_CHUNKS:
        return 0.0
    seconds = params.cold_prefill_s + params.cold_prefill_token_s * batch.prefill_tokens
    if batch.follows == AFTER_IDLE:
        seconds += params.idle_prefill_s
    return seconds


@inner
def first_coordinate(batch: BatchShape) -> float:
    """Root of num_decodes in a decode-only step, else of prefill_tokens."""
    if batch.prefill_tokens == 0:
        return math.sqrt(batch.num_decodes)
    return math.sqrt(batch.prefill_tokens)


@inner
def second_coordinate(batch: BatchShape) -> float:
    """Root of the context per decode, of the attention pairs per prefill token (no decodes), or
    of num_decodes (mixed)."""
    if batch.prefill_tokens == 0:
        return math.sqrt(batch.decode_context / max(1, batch.num_decodes))
    if batch.num_decodes == 0:
        return math.sqrt(batch.attention_pairs / max(1, batch.prefill_tokens))
    return math.sqrt(batch.num_decodes)


@inner
def table_factor(table: FloatArray, batch: BatchShape) -> float:
    """Factor of the batch by bilinear interpolation in the table of its region; 1 without one.

    The axes are square roots, so that small batches get more of the nodes. Outside the grid the
    nearest edge counts: a factor is never extrapolated.
    """
    if table.size == 0:
        return 1.0
    region = step_region(batch)
    first = (first_coordinate(batch) - table[region, GRID, 0]) * table[region, GRID, 1]
    second = (second_coordinate(batch) - table[region, GRID, 2]) * table[region, GRID, 3]
    x: float = min(GRID - 1.0, max(0.0, first))
    y: float = min(GRID - 1.0, max(0.0, second))
    i = min(int(x), GRID - 2)
    j = min(int(y), GRID - 2)
    factor: float = bilinear(table, region, i, j, (x - i, y - j))
    return factor


@compiled
def step_time(params: StepTimeParams, batch: BatchShape) -> float:
    """Device seconds of one step, without host time."""
    if params.tables.decode_step_s.size > 0:
        seconds: float = tabulated_time(params.tables, batch)
    else:
        seconds = roofline_time(params, batch)
    seconds *= table_factor(params.table, batch)
    return seconds + params.encoder_token_s * batch.encoder_tokens


@compiled
def step_interval(
    params: StepTimeParams, batch: BatchShape, num_running: int, overlapped: bool
) -> float:
    """Seconds between the output of the previous step and of this one.

    Parameters
    ----------
    num_running
        Running requests after scheduling.
    overlapped
        True with asynchronous scheduling: the host prepares the next step while the device runs
        this one, so the slower of the two sets the pace.
    """
    device = step_time(params, batch)
    host = params.host_s + params.host_per_running_s * num_running
    if overlapped:
        return max(device, host)
    return device + host


class BatchColumns(NamedTuple):
    """S batches of text as columns; the fields of `BatchShape` but `encoder_tokens`."""

    prefill_tokens: IntArray
    num_prefills: IntArray
    attention_pairs: FloatArray
    chunk_context: IntArray
    num_decodes: IntArray
    decode_context: IntArray
    follows: IntArray


@compiled
def fill_times(
    params: StepTimeParams,
    columns: BatchColumns,
    num_running: IntArray,
    overlapped: bool,
    out: FloatArray,
) -> None:
    """Write device seconds and interval seconds of each batch into `out` (S, 2).

    `num_running` is (S,) running requests of each step.
    """
    for i in range(out.shape[0]):
        batch = BatchShape(
            columns.prefill_tokens[i],
            columns.num_prefills[i],
            columns.attention_pairs[i],
            columns.chunk_context[i],
            columns.num_decodes[i],
            columns.decode_context[i],
            columns.follows[i],
            0,  # encoder_tokens
        )
        out[i, 0] = step_time(params, batch)
        out[i, 1] = step_interval(params, batch, num_running[i], overlapped)
