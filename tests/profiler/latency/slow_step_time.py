"""The slow, obvious twin of `profiler.latency.step_time`, and random parameters for both."""

from __future__ import annotations

import numpy as np

from profiler.latency.params import GRID, NO_TABLE, NO_TABLES, SCALARS, StepTables, StepTimeParams
from profiler.latency.step_time import BatchShape
from profiler.steps import AFTER_CHUNKS, AFTER_DECODES, AFTER_IDLE


def slow_step_time(params: StepTimeParams, batch: BatchShape) -> float:
    """Every term spelled out; the table read with NumPy's own interpolation."""
    tokens = batch.prefill_tokens + batch.num_decodes
    terms = [
        params.constant_s,
        params.per_prefill_token_s * batch.prefill_tokens,
        params.per_decode_s * batch.num_decodes,
        params.per_attention_pair_s * batch.attention_pairs,
        params.per_decode_context_s * batch.decode_context,
        params.per_prefill_s * batch.num_prefills,
        params.per_chunk_context_s * batch.chunk_context,
        params.with_prefill_s * (batch.num_prefills > 0),
        params.mixed_s * (batch.num_prefills > 0 and batch.num_decodes > 0),
        params.mixed_per_decode_s * batch.num_decodes * (batch.num_prefills > 0),
        params.mixed_per_context_s * batch.decode_context * (batch.num_prefills > 0),
        params.cold_decode_s * (batch.num_prefills == 0 and batch.follows != AFTER_DECODES),
        params.cold_prefill_s * (batch.num_prefills > 0 and batch.follows != AFTER_CHUNKS),
        params.cold_prefill_token_s * (batch.follows != AFTER_CHUNKS) * batch.prefill_tokens,
        params.idle_prefill_s * (batch.num_prefills > 0 and batch.follows == AFTER_IDLE),
        params.above_knee_s * (tokens - params.upper_knee if tokens > params.upper_knee else 0),
        params.below_knee_s * (tokens if tokens < params.lower_knee else params.lower_knee),
    ]
    seconds = max(sum(terms), params.floor_s)
    if params.table.size:
        seconds *= slow_factor(params.table, batch)
    return seconds + params.encoder_token_s * batch.encoder_tokens


def slow_factor(table: np.ndarray, batch: BatchShape) -> float:
    """Interpolate along the second axis in every row, then along the first."""
    if batch.prefill_tokens == 0:
        region, axes = 0, (batch.num_decodes, batch.decode_context / batch.num_decodes)
    elif batch.num_decodes == 0:
        region, axes = 1, (batch.prefill_tokens, batch.attention_pairs / batch.prefill_tokens)
    else:
        region, axes = 2, (batch.prefill_tokens, batch.num_decodes)
    origin_1, scale_1, origin_2, scale_2 = table[region, GRID, :4]
    first = origin_1 + np.arange(GRID) / scale_1
    second = origin_2 + np.arange(GRID) / scale_2
    along = [np.interp(np.sqrt(axes[1]), second, table[region, i]) for i in range(GRID)]
    return float(np.interp(np.sqrt(axes[0]), first, along))


def slow_tabulated_time(tables: StepTables, batch: BatchShape) -> float:
    """Every part spelled out, from NumPy's own interpolation."""
    nd, context = batch.num_decodes, batch.decode_context / max(1, batch.num_decodes)
    if batch.prefill_tokens == 0:
        return tables.decode_step_s[nd] + slow_grid(tables.attention_s[0], nd, context)
    depth = batch.attention_pairs / batch.prefill_tokens
    one = slow_grid(tables.attention_s[2], batch.prefill_tokens, depth)
    four = slow_grid(tables.attention_s[3], batch.prefill_tokens, depth)
    chunks = np.interp(batch.num_prefills, [1, 4], [one, four])
    beside = slow_grid(tables.attention_s[1], nd, context) if nd else 0.0
    layers = float(tables.chunk_step_s[batch.prefill_tokens + nd])
    return max(float(tables.chunk_step_s[0]), layers + chunks + beside)


def slow_grid(grid: np.ndarray, x: float, y: float) -> float:
    """Interpolate along the second axis in every row, then along the first."""
    size = grid.shape[1]
    first = (grid[size, 0] + np.arange(size) / grid[size, 1]) ** 4
    second = (grid[size, 2] + np.arange(size) / grid[size, 3]) ** 4
    return float(np.interp(x, first, [np.interp(y, second, row) for row in grid[:size]]))


def random_tables(rng: np.random.Generator) -> StepTables:
    """Tables that hold every batch of `random_batch`."""
    grids = rng.uniform(1e-3, 1e-1, (4, 8, 7))
    grids[:, 7, :4] = (1.0, 1.0, 1.0, 0.9)
    return StepTables(rng.uniform(5e-3, 6e-3, 65), rng.uniform(1e-2, 2e-2, 2000), grids)


def random_params(rng: np.random.Generator, *, with_table: bool) -> StepTimeParams:
    """Coefficients of plausible sizes, each absent now and then."""
    names = SCALARS
    sizes = dict.fromkeys(names, 1e-3) | {
        "per_prefill_token_s": 1e-4,
        "cold_prefill_token_s": 1e-5,
        "mixed_per_context_s": 1e-7,
        "per_attention_pair_s": 1e-8,
        "per_decode_context_s": 1e-7,
        "upper_knee": 512.0,
        "lower_knee": 64.0,
        "floor_s": 2e-2,
    }
    values = {n: float(rng.random() * sizes[n] * (rng.random() > 0.3)) for n in names}
    table = NO_TABLE
    if with_table:
        table = rng.uniform(0.7, 1.4, (3, GRID + 1, GRID))
        table[:, GRID, :] = 0.0
        table[:, GRID, [0, 2]] = rng.uniform(0.0, 5.0, (3, 2))
        table[:, GRID, [1, 3]] = rng.uniform(0.2, 1.0, (3, 2))
    return StepTimeParams(table=table, tables=NO_TABLES, **values)


def random_batch(rng: np.random.Generator) -> BatchShape:
    """A batch of one of the three kinds."""
    kind = rng.integers(0, 3)
    chunks = [] if kind == 0 else [int(n) for n in rng.integers(1, 600, rng.integers(1, 4))]
    before = [int(n) for n in rng.integers(0, 2000, len(chunks))]
    decodes = 0 if kind == 1 else int(rng.integers(1, 65))
    pairs = sum(n * (b + (n + 1) / 2) for n, b in zip(chunks, before, strict=True))
    context = int(rng.integers(1, 3000)) * decodes
    shape = (sum(chunks), len(chunks), float(pairs), sum(before), decodes, context)
    return BatchShape(*shape, int(rng.integers(0, 3)), int(rng.integers(0, 3)) * len(chunks))
