"""The flexible part: gradient boosting on what the roofline leaves, as a small table of factors.

For each kind of step, boosted trees learn log(measured / roofline) over the two axes of the table
of `step_time.table_factor`; their values at the nodes become the factors. A kind's table is kept
only where it wins on groups that neither the roofline nor the trees have seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from profiler.latency.params import GRID, NO_TABLE, StepTimeParams
from profiler.latency.region import regions_of
from profiler.latency.roofline import (
    Rows,
    Structure,
    device_seconds,
    error_score,
    fit_roofline,
)
from profiler.latency.step_time import BatchColumns, FloatArray, IntArray

_WIN = 0.95
"""held-out error with the table must be below this share of the error without ..."""
_LEAST_GAIN = 2e-3
"""... and by this much"""
_TAILS = (0.05, 0.95)
"""ratios beyond these quantiles count as the quantile, so that spikes do not bend the trees"""
_FEWEST_ROWS = 40


def coordinates(columns: BatchColumns) -> FloatArray:
    """(S, 2) where each batch lies on the axes of its table; see `step_time.first_coordinate`."""
    c = columns
    decode_depth = c.decode_context / np.maximum(c.num_decodes, 1)
    chunk_depth = c.attention_pairs / np.maximum(c.prefill_tokens, 1)
    first = np.where(c.prefill_tokens == 0, c.num_decodes, c.prefill_tokens)
    second = np.where(c.num_decodes == 0, chunk_depth, c.num_decodes)
    second = np.where(c.prefill_tokens == 0, decode_depth, second)
    return np.asarray(np.sqrt(np.stack([first, second], axis=1)), dtype=np.float64)


def neutral_table() -> FloatArray:
    """A table whose factors are all 1."""
    table = np.ones((3, GRID + 1, GRID))
    table[:, GRID, :] = 0.0
    table[:, GRID, 1] = table[:, GRID, 3] = 1.0
    return table


def fit_table(params: StepTimeParams, rows: Rows, seed: int) -> FloatArray:
    """(3, GRID + 1, GRID) factors for the roofline `params`, from `rows`."""
    table = neutral_table()
    kinds, place = regions_of(rows.columns), coordinates(rows.columns)
    ratio = np.log(rows.seconds / device_seconds(params, rows.columns))
    for kind in range(3):
        mask = kinds == kind
        if mask.sum() >= _FEWEST_ROWS:
            table[kind] = _fit_kind(place[mask], ratio[mask], rows.weight[mask], seed)
    return table


def _fit_kind(place: FloatArray, ratio: FloatArray, weight: FloatArray, seed: int) -> FloatArray:
    from sklearn.ensemble import HistGradientBoostingRegressor  # heavy: only fitting needs it

    ratio = np.clip(ratio, *np.quantile(ratio, _TAILS))
    trees: Any = HistGradientBoostingRegressor(
        max_iter=40,
        learning_rate=0.2,
        max_leaf_nodes=8,
        max_bins=64,
        min_samples_leaf=8,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=seed,
    ).fit(place, ratio, sample_weight=weight)
    low, high = place.min(axis=0), place.max(axis=0)
    step = np.maximum(high - low, 1e-6) / (GRID - 1)
    nodes = low + step * np.arange(GRID)[:, None]
    grid = np.stack(np.meshgrid(nodes[:, 0], nodes[:, 1], indexing="ij"), axis=-1)
    part = np.zeros((GRID + 1, GRID))
    part[:GRID] = np.exp(trees.predict(grid.reshape(-1, 2))).reshape(GRID, GRID)
    part[GRID, :4] = (low[0], 1.0 / step[0], low[1], 1.0 / step[1])
    return part


def choose_table(
    rows: Rows, structure: Structure, fold: IntArray, seed: int
) -> tuple[FloatArray, tuple[int, ...]]:
    """The table to use with `structure`, and the kinds of steps where it won (none: `NO_TABLE`)."""
    plain, flexible = np.empty(rows.seconds.size), np.empty(rows.seconds.size)
    for k in np.unique(fold):
        test = fold == k
        train, held = rows.select(~test), rows.select(test)
        params = fit_roofline(train, structure)
        plain[test] = device_seconds(params, held.columns)
        table = fit_table(params, train, seed)
        flexible[test] = device_seconds(params._replace(table=table), held.columns)
    kinds = regions_of(rows.columns)
    won = tuple(k for k in range(3) if _wins(plain, flexible, rows, kinds == k))
    if not won:
        return NO_TABLE, ()
    table = fit_table(fit_roofline(rows, structure), rows, seed)
    neutral = neutral_table()
    for k in set(range(3)) - set(won):
        table[k] = neutral[k]
    return table, won


def _wins(
    plain: FloatArray,
    flexible: FloatArray,
    rows: Rows,
    mask: npt.NDArray[np.bool_],
) -> bool:
    if mask.sum() < _FEWEST_ROWS:
        return False
    part = rows.select(mask)
    before, after = error_score(plain[mask], part), error_score(flexible[mask], part)
    return after < min(_WIN * before, before - _LEAST_GAIN)
