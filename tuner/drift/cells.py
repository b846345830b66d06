"""Traffic as sums over short runs of requests, which can be resampled thousands of times.

Requests come in bursts and hang together, so that a test that takes them for independent finds a
difference everywhere. Resampling therefore joins blocks of consecutive requests, each beginning
anywhere in the trace (the circular block bootstrap, as `tuner.windows` draws whole traces). Every
statistic here is a function of sums over requests, and a block's sums are differences of
cumulative ones, so that drawing a window costs a few additions instead of a sort.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiler.traffic.checks import BoolArray, FloatArray, IntArray
from profiler.traffic.prefixes import seen_before
from profiler.traffic.trace import Trace

BLOCK = 8
"""cells per block: a block is 1/32 of the shorter trace, as in `tuner.windows`"""
_CELLS, _MOST_CELLS = 256, 2048
_MOST_EDGES = 256


@dataclass(frozen=True)
class Grid:
    """Where distributions of lengths are compared; the same for both traces."""

    prompt: FloatArray
    """(P,) tokens, ascending; the last is the longest prompt of both"""
    output: FloatArray
    """(O,) tokens, ascending"""
    cell: int
    """requests per cell"""
    chunk_s: float
    """seconds after which a prompt no longer counts as seen before: both traces must have the same
    time to see a prefix again"""


def grid_of(before: Trace, after: Trace) -> Grid:
    """The grid for two traces."""
    sizes = (before.num_requests, after.num_requests)
    return Grid(
        prompt=_edges(np.concatenate([before.prompt_tokens, after.prompt_tokens])),
        output=_edges(np.concatenate([before.output_tokens, after.output_tokens])),
        cell=max(1, min(sizes) // _CELLS, max(sizes) // _MOST_CELLS),
        chunk_s=min(before.duration_s, after.duration_s),
    )


def _edges(tokens: IntArray) -> FloatArray:
    """Every length that occurs, or quantiles of them where there are more than a few."""
    distinct = np.unique(tokens)
    if distinct.size > _MOST_EDGES:
        shares = np.linspace(0.0, 1.0, _MOST_EDGES)
        distinct = np.unique(np.quantile(tokens, shares, method="inverted_cdf"))
    return distinct.astype(np.float64)


@dataclass(frozen=True)
class Columns:
    """Where the sums of one group of requests are in the columns of a table of cells."""

    start: int
    grid: Grid

    @property
    def count(self) -> int:
        return self.start

    @property
    def shared(self) -> int:
        """tokens of prompts that an earlier prompt had"""
        return self.start + 1

    @property
    def sharable(self) -> int:
        """tokens of prompts that are compared with earlier ones"""
        return self.start + 2

    @property
    def tokens(self) -> tuple[int, int]:
        """sums of prompt and of output tokens"""
        return self.start + 3, self.start + 4

    @property
    def lengths(self) -> tuple[slice, slice]:
        """requests by prompt length and by output length"""
        first = self.start + 5
        middle = first + self.grid.prompt.size
        return slice(first, middle), slice(middle, middle + self.grid.output.size)

    @property
    def end(self) -> int:
        return self.start + 5 + self.grid.prompt.size + self.grid.output.size


TIME = 0
"""column of the seconds between arrivals; the groups follow"""


def columns_of(grid: Grid, num_groups: int) -> list[Columns]:
    """The columns of each group."""
    columns, start = [], TIME + 1
    for _ in range(num_groups):
        columns.append(Columns(start, grid))
        start = columns[-1].end
    return columns


def cells_of(trace: Trace, grid: Grid, groups: list[BoolArray]) -> FloatArray:
    """(K, F) sums over each cell of `trace`, for `columns_of(grid, len(groups))`.

    Parameters
    ----------
    trace
        N requests.
    grid
        From `grid_of`.
    groups
        (N,) each, which requests belong to the group.
    """
    n = trace.num_requests
    num_cells = max(1, n // grid.cell)
    cell = np.minimum(np.arange(n) // grid.cell, num_cells - 1)
    gap_s = np.diff(trace.arrival_s, prepend=0.0)
    gap_s[0] = trace.duration_s / max(1, n - 1)  # as in `tuner.windows`
    shared, sharable = sharing(trace, grid.chunk_s)
    parts = [np.bincount(cell, gap_s, num_cells)[:, None]]
    lengths = ((trace.prompt_tokens, grid.prompt), (trace.output_tokens, grid.output))
    for rows in groups:
        own = cell[rows]
        sums = (np.ones(n), shared, sharable, trace.prompt_tokens, trace.output_tokens)
        parts.append(np.stack([np.bincount(own, s[rows], num_cells) for s in sums], axis=1))
        for tokens, edges in lengths:
            place = own * edges.size + np.searchsorted(edges, tokens[rows])
            counts = np.bincount(place, minlength=num_cells * edges.size)
            parts.append(counts.reshape(num_cells, edges.size).astype(np.float64))
    return np.concatenate(parts, axis=1)


def sharing(trace: Trace, chunk_s: float) -> tuple[FloatArray, FloatArray]:
    """(N,) prompt tokens that an earlier prompt of the same chunk had, and (N,) all that count.

    A chunk begins with nothing seen. What is left over at the end, too short for a chunk, does not
    count. Zeros where the trace has no prefixes.
    """
    shared, sharable = np.zeros(trace.num_requests), np.zeros(trace.num_requests)
    size = trace.prefix_block_tokens
    if size is None or trace.prefix_offsets is None:
        return shared, sharable
    num_chunks = max(1, int(trace.duration_s / chunk_s)) if chunk_s > 0 else 1
    for number in range(num_chunks):
        late = number == num_chunks - 1 and trace.duration_s < (number + 1.01) * chunk_s
        end_s = np.inf if late or chunk_s == 0 else (number + 1) * chunk_s
        rows = np.flatnonzero((trace.arrival_s >= number * chunk_s) & (trace.arrival_s < end_s))
        if rows.size:
            part = trace.take(rows)
            whole = part.prompt_tokens // size
            shared[rows] = seen_before(part, whole)[0] * size
            sharable[rows] = part.prompt_tokens
    return shared, sharable


def resample(cells: FloatArray, num_cells: int, num: int, rng: np.random.Generator) -> FloatArray:
    """(num, F) sums over windows of about `num_cells` cells, joined from blocks of `cells`."""
    size = len(cells)
    length = min(BLOCK, size)
    wrapped = np.concatenate([np.zeros((1, cells.shape[1])), cells, cells[: length - 1]])
    total = np.cumsum(wrapped, axis=0)
    blocks = total[length:] - total[:size]
    num_blocks = max(1, round(num_cells / length))
    starts = rng.integers(size, size=(num, num_blocks))
    chosen = np.zeros((num, size))
    np.add.at(chosen, (np.arange(num)[:, None], starts), 1.0)
    windows: FloatArray = chosen @ blocks
    return windows
