"""Step times from tables, for a source that answers any batch shape but takes long to do so.

A step's time is a sum of parts that depend on few numbers each: the layers without attention on the
number of tokens, attention of decodes on their number and mean context, attention of chunks on
their tokens and mean depth. Depth is query-key pairs per token: the sum over the chunks, so that
unequal chunks count with what each really costs and not with the cost of their average.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from profiler.compiled import compiled
from profiler.latency.params import StepTables

if TYPE_CHECKING:
    from profiler.latency.step_time import BatchShape

FloatArray = npt.NDArray[np.float64]

DECODES_ALONE = 0
"""grid of `StepTables.attention_s`: decodes of a decode-only step, by number and mean context"""
DECODES_BESIDE = 1
"""decodes beside chunks, by the same"""
ONE_CHUNK = 2
"""the chunk of one prompt, by tokens and depth"""
SEVERAL_CHUNKS = 3
"""equal chunks of `SEVERAL` prompts, by tokens of all and depth; more cost hardly more"""
SEVERAL = 4


@compiled
def bilinear(table: FloatArray, k: int, i: int, j: int, part: tuple[float, float]) -> float:
    """Value of table[k] between nodes (i, j) and (i + 1, j + 1), `part` of the way along each."""
    u, v = part
    low = (1.0 - v) * table[k, i, j] + v * table[k, i, j + 1]
    high = (1.0 - v) * table[k, i + 1, j] + v * table[k, i + 1, j + 1]
    value: float = (1.0 - u) * low + u * high
    return value


@compiled
def find_cell(x: float, origin: float, scale: float, size: int) -> tuple[int, float]:
    """Node below `x`, and the part of the way to the next; above 1 beyond the last node.

    Node i lies at (origin + i / scale)^4, which gives small batches most of the nodes. Time grows
    about linearly in each coordinate, so it is interpolated in the coordinate itself, and continued
    along the last cell.
    """
    i = min(max(int((math.sqrt(math.sqrt(x)) - origin) * scale), 0), size - 2)
    low, high = (origin + i / scale) ** 2, (origin + (i + 1) / scale) ** 2
    low, high = low * low, high * high  # as Python and machine code agree to the last bit
    return i, max(0.0, (x - low) / (high - low))


@compiled
def attention_time(grids: FloatArray, k: int, x: float, y: float) -> float:
    """Seconds of attention at (x, y) of grid `k`."""
    size = grids.shape[2]
    i, u = find_cell(x, grids[k, size, 0], grids[k, size, 1], size)
    j, v = find_cell(y, grids[k, size, 2], grids[k, size, 3], size)
    seconds: float = bilinear(grids, k, i, j, (u, v))
    return seconds


@compiled
def at_tokens(seconds: FloatArray, n: int) -> float:
    """seconds[n], continued along the last two beyond the end."""
    last = seconds.size - 1
    i = min(n, last)
    value: float = seconds[i] + (n - i) * (seconds[last] - seconds[last - 1])
    return value


@compiled
def chunk_attention_time(grids: FloatArray, batch: BatchShape) -> float:
    """Seconds of attention of the chunks, between that of one and of several."""
    depth = batch.attention_pairs / batch.prefill_tokens
    several = min(1.0, (batch.num_prefills - 1) / (SEVERAL - 1))
    seconds: float = 0.0
    if several < 1.0:
        one = attention_time(grids, ONE_CHUNK, batch.prefill_tokens, depth)
        seconds += (1.0 - several) * one
    if several > 0.0:
        many = attention_time(grids, SEVERAL_CHUNKS, batch.prefill_tokens, depth)
        seconds += several * many
    return seconds


@compiled
def tabulated_time(tables: StepTables, batch: BatchShape) -> float:
    """Device seconds of one step.

    Not `inner`: inlined into the decode loop it makes models without tables 1.4 times as slow.
    """
    grids, decodes = tables.attention_s, batch.num_decodes
    context = batch.decode_context / max(1, decodes)
    if batch.prefill_tokens == 0:
        seconds: float = at_tokens(tables.decode_step_s, decodes)
        return seconds + attention_time(grids, DECODES_ALONE, decodes, context)
    seconds = at_tokens(tables.chunk_step_s, batch.prefill_tokens + decodes)
    seconds += chunk_attention_time(grids, batch)
    if decodes > 0:
        seconds += attention_time(grids, DECODES_BESIDE, decodes, context)
    seconds = max(seconds, tables.chunk_step_s[0])
    return seconds
