"""The coefficients of the step-latency model, as the compiled functions take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

GRID = 8
"""nodes along each axis of a table of factors"""
NO_TABLE = np.empty((0, 0, 0))
"""a table that corrects nothing"""


class StepTables(NamedTuple):
    """Step times as tables instead of roofline terms; read by `tabulated.tabulated_time`, written
    by `profiler.engines.silicon.tabulate`. The axes of a grid are fourth roots of its coordinates.
    """

    decode_step_s: FloatArray
    """(D + 1,) seconds of a decode-only step by number of decodes, without their context"""
    chunk_step_s: FloatArray
    """(T + 1,) seconds of a step with chunks by its number of tokens, without attention; at 0 the
    least that such a step takes"""
    attention_s: FloatArray
    """(4, M + 1, M) seconds of attention at the nodes of four grids (`tabulated` names them), and
    in row M of each the place of the grid, as in `StepTimeParams.table`; M is at least 4"""


NO_TABLES = StepTables(np.empty(0), np.empty(0), np.empty((0, 0, 0)))
"""none: the roofline terms count"""


class StepTimeParams(NamedTuple):
    """Coefficients of `step_time` and `step_interval`; written by `profiler.latency.fit`.

    T is prefill_tokens + num_decodes. Every coefficient is >= 0.
    """

    constant_s: float
    per_prefill_token_s: float
    per_decode_s: float
    per_attention_pair_s: float
    per_decode_context_s: float
    """seconds per token of KV read by decodes"""
    per_prefill_s: float
    """seconds per prompt that gets a chunk"""
    per_chunk_context_s: float
    """seconds per token already computed of those prompts"""
    with_prefill_s: float
    """once per step that has a chunk (another kernel or graph than decode-only steps)"""
    mixed_s: float
    """once per step that has chunks and decodes"""
    mixed_per_decode_s: float
    """seconds per decode in a step that has chunks, on top"""
    mixed_per_context_s: float
    """seconds per token of KV read by decodes in such a step, on top (another attention path)"""
    cold_decode_s: float
    """once per decode-only step that does not follow one"""
    cold_prefill_s: float
    """once per step with chunks that does not follow one"""
    cold_prefill_token_s: float
    """seconds per prompt token of such a step, on top"""
    idle_prefill_s: float
    """once per step with chunks after an idle engine, on top"""
    above_knee_s: float
    """seconds per token of T above `upper_knee` (arithmetic-bound slope)"""
    upper_knee: float
    """tokens"""
    below_knee_s: float
    """seconds per token of T up to `lower_knee` (slope of small batches)"""
    lower_knee: float
    """tokens"""
    floor_s: float
    """no step takes less on the device"""
    table: FloatArray
    """(3, GRID + 1, GRID): by region the factors at the grid nodes, and in row GRID the place of
    the grid: origin and scale of the first axis, origin and scale of the second. `NO_TABLE`, which
    is empty, for none."""
    tables: StepTables
    """step times that replace every term above; `NO_TABLES` for none"""
    encoder_token_s: float
    """seconds per image token that the vision encoder computes, on top of everything else; written
    by hand, because no fit measures it: 0 without"""
    host_s: float
    """host time of every step (scheduling, input building, output handling)"""
    host_per_running_s: float
    """host time per running request"""


SCALARS = tuple(name for name in StepTimeParams._fields if name not in ("table", "tables"))
"""the coefficients that are single numbers"""


def plain_params(**coefficients: float) -> StepTimeParams:
    """Parameters without tables; what is not given is 0."""
    values = dict.fromkeys(SCALARS, 0.0) | coefficients
    numbers = {name: float(value) for name, value in values.items()}
    return StepTimeParams(table=NO_TABLE, tables=NO_TABLES, **numbers)
