"""From an answer per batch shape to the tables that the compiled step time reads."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from profiler.engines.base import Progress
from profiler.engines.silicon.published import Published
from profiler.engines.silicon.spec import Terms
from profiler.latency.params import FloatArray, IntArray, StepTables
from profiler.latency.tabulated import (
    DECODES_ALONE,
    DECODES_BESIDE,
    ONE_CHUNK,
    SEVERAL,
    SEVERAL_CHUNKS,
)

NODES = 33
"""nodes along each axis of a grid"""
_MS = 1e-3
_DIGITS = 10
"""decimals of a second that are kept: a tenth of a nanosecond"""


@dataclass(frozen=True)
class Extent:
    """How far the tables go."""

    tokens: int
    """prompt tokens of a step"""
    decodes: int
    """decodes of a step"""
    depth: int
    """tokens of context of a request"""


def tabulate(
    published: Published, extent: Extent, *, nodes: int = NODES, progress: Progress | None = None
) -> StepTables:
    """Sample `published` on a designed grid; GPU seconds, without any further term.

    Parameters
    ----------
    nodes
        Nodes along each axis of a grid, at least 4.
    progress
        Called with (parts done, parts in all).
    """
    tokens = np.arange(1, extent.tokens + extent.decodes + 1)
    layers = np.array([0.0, *(published.layers_ms(int(n)) for n in tokens)])
    decodes = np.arange(1, extent.decodes + 1)
    alone = np.array([0.0, *(published.step_ms(0, 0, 0, int(n), int(n)) for n in decodes)])
    first_chunk = published.step_ms(1, 1, 0, 0, 0) - float(layers[1])

    def decode_alone(n: int, depth: float) -> float:
        return published.step_ms(0, 0, 0, n, round(n * depth)) - float(alone[n])

    def decode_beside(n: int, depth: float) -> float:
        whole = published.step_ms(1, 1, 0, n, round(n * depth))
        return whole - float(layers[n + 1]) - first_chunk

    def one_chunk(n: int, depth: float) -> float:
        return _chunk_ms(published, layers, (1, n), depth)

    def several_chunks(n: int, depth: float) -> float:
        return _chunk_ms(published, layers, (SEVERAL, n), depth)

    grids = np.empty((4, nodes + 1, nodes))
    samplers: tuple[tuple[int, Callable[[int, float], float], int, int], ...] = (
        (DECODES_ALONE, decode_alone, extent.decodes, 1),
        (DECODES_BESIDE, decode_beside, extent.decodes, 1),
        (ONE_CHUNK, one_chunk, extent.tokens, 1),
        (SEVERAL_CHUNKS, several_chunks, extent.tokens, SEVERAL),
    )
    for done, (grid, sample, most, multiple) in enumerate(samplers):
        if progress:
            progress(done, len(samplers))
        grids[grid] = _sample_grid(sample, (most, extent.depth), multiple, nodes)
    seconds = (alone * _MS, layers * _MS, grids)
    return StepTables(*(np.round(array, _DIGITS) for array in seconds))


def _sample_grid(
    sample: Callable[[int, float], float], ends: tuple[int, int], multiple: int, nodes: int
) -> FloatArray:
    """One grid of `StepTables.attention_s`, seconds; axes from 1 to `ends`."""
    grid = np.zeros((nodes + 1, nodes))
    steps = [(float(end) ** 0.25 - 1.0) / (nodes - 1) for end in ends]
    for i, j in np.ndindex(nodes, nodes):
        x, y = (1.0 + i * steps[0]) ** 4, (1.0 + j * steps[1]) ** 4
        grid[i, j] = _MS * _between(sample, x, multiple, y)
    grid[nodes, :4] = 1.0, 1.0 / steps[0], 1.0, 1.0 / steps[1]
    return grid


def _between(sample: Callable[[int, float], float], x: float, multiple: int, depth: float) -> float:
    """`sample` at a number that need not be whole, from the multiples on both sides of it."""
    low = max(multiple, math.floor(x / multiple + 1e-9) * multiple)
    part = max(0.0, (x - low) / multiple)
    if part < 1e-6:
        return sample(low, depth)
    return (1.0 - part) * sample(low, depth) + part * sample(low + multiple, depth)


def _chunk_ms(
    published: Published, layers: FloatArray, size: tuple[int, int], depth: float
) -> float:
    """Attention of the chunks of `size` (prompts, tokens of all) with `depth` query-key pairs per
    token: so much cached that it comes out, or more prompts where that would be negative."""
    prompts, tokens = size
    cached = depth - (tokens / prompts + 1) / 2
    if cached >= 0:
        whole = published.step_ms(prompts, tokens, round(prompts * cached), 0, 0)
        return whole - float(layers[tokens])
    prompts = min(tokens, math.ceil(tokens / (2 * depth - 1)))
    chunk = tokens // prompts
    whole = published.step_ms(prompts, prompts * chunk, 0, 0, 0) - layers[prompts * chunk]
    return float(whole) * tokens / (prompts * chunk)


def with_terms(tables: StepTables, terms: Terms, sizes: IntArray, num_layers: int) -> StepTables:
    """The tables with everything in `terms` that the device's time takes.

    Parameters
    ----------
    sizes
        Token counts that CUDA graphs are captured for, ascending.
    num_layers
        Layers of the model.
    """

    def padded(seconds: FloatArray) -> FloatArray:
        place = np.arange(seconds.size)
        if terms.graph_padding:
            small = place <= sizes[-1]
            place[small] = sizes[np.searchsorted(sizes, place[small])]
        return np.asarray(np.round(seconds[place] + terms.step_s, _DIGITS))

    layers = tables.chunk_step_s
    weights = np.minimum(layers, layers[1])
    chunks = padded(terms.decode_factor * weights + terms.chunk_factor * (layers - weights))
    chunks[0] = terms.launch_per_layer_s * num_layers
    grids = tables.attention_s.copy()
    grids[[DECODES_ALONE, DECODES_BESIDE], :-1] *= terms.decode_factor
    grids[[ONE_CHUNK, SEVERAL_CHUNKS], :-1] *= terms.chunk_factor
    return StepTables(
        decode_step_s=padded(terms.decode_factor * tables.decode_step_s),
        chunk_step_s=chunks,
        attention_s=np.round(grids, _DIGITS),
    )
