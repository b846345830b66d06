"""Non-negative least squares on roofline features, fitted for relative error.

The solver is Lawson and Hanson's (Solving Least Squares Problems, 1974, ch. 23) through SciPy. Rows
are divided by their *predicted* time, as in iteratively reweighted least squares: dividing by the
measured time would favour predictions that are too short. Rows far from the fit are given less
weight (Huber, Robust Estimation of a Location Parameter, 1964), because a busy machine now and
then stretches a step several times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from profiler.latency.params import StepTimeParams, plain_params
from profiler.latency.region import joint_cells, regions_of
from profiler.latency.step_time import BatchColumns, FloatArray, IntArray, fill_times
from profiler.steps import AFTER_CHUNKS, AFTER_DECODES, AFTER_IDLE

_ROUNDS = 6
_HUBER = 1.5
_CLIP = 0.5
"""relative errors count up to this much when structures are compared, so that spikes do not"""
_WORTH = 0.98
"""a further part must bring the held-out error below this share of what it was ..."""
_LEAST_GAIN = 1e-4
"""... and by this much, so that rounding decides nothing"""


@dataclass(frozen=True)
class Structure:
    """Which optional parts the roofline has; 0 means without."""

    upper_knee: float = 0.0
    lower_knee: float = 0.0
    floor_s: float = 0.0


def select_columns(columns: BatchColumns, mask: npt.NDArray[np.bool_]) -> BatchColumns:
    """The batches of `mask`."""
    return BatchColumns(**{name: column[mask] for name, column in columns._asdict().items()})


@dataclass(frozen=True)
class Rows:
    """S measured steps, as the fits see them."""

    columns: BatchColumns
    seconds: FloatArray
    """(S,) device seconds at the reference speed"""
    weight: FloatArray
    """(S,) importance, mean 1"""
    group: IntArray
    """(S,) steps of one group are held out together"""

    def select(self, mask: npt.NDArray[np.bool_]) -> Rows:
        return Rows(
            columns=select_columns(self.columns, mask),
            seconds=self.seconds[mask],
            weight=self.weight[mask],
            group=self.group[mask],
        )


def balanced_weights(columns: BatchColumns) -> FloatArray:
    """(S,) weights by which a cell of shapes counts with the root of its number of steps.

    Long decodes give thousands of rows of nearly one shape, a large chunk one.
    """
    _, cell, counts = np.unique(
        joint_cells(columns), axis=0, return_inverse=True, return_counts=True
    )
    weight = 1.0 / np.sqrt(counts[cell.ravel()])
    return np.asarray(weight / weight.mean(), dtype=np.float64)


_TERMS = (
    "constant_s",
    "per_prefill_token_s",
    "per_decode_s",
    "per_attention_pair_s",
    "per_decode_context_s",
    "per_prefill_s",
    "per_chunk_context_s",
    "with_prefill_s",
    "mixed_s",
    "mixed_per_decode_s",
    "mixed_per_context_s",
    "cold_decode_s",
    "cold_prefill_s",
    "cold_prefill_token_s",
    "idle_prefill_s",
    "above_knee_s",
    "below_knee_s",
)


def design_matrix(columns: BatchColumns, structure: Structure) -> FloatArray:
    """(S, K) one column per name in `_TERMS`; the terms of `step_time.roofline_time`."""
    c = columns
    tokens = (c.prefill_tokens + c.num_decodes).astype(np.float64)
    has_prefill = c.prefill_tokens > 0
    cold_prefill = has_prefill & (c.follows != AFTER_CHUNKS)
    above = np.maximum(0.0, tokens - structure.upper_knee) if structure.upper_knee else 0 * tokens
    below = np.minimum(tokens, structure.lower_knee)
    terms = (
        np.ones_like(tokens),
        c.prefill_tokens,
        c.num_decodes,
        c.attention_pairs,
        c.decode_context,
        c.num_prefills,
        c.chunk_context,
        has_prefill,
        has_prefill & (c.num_decodes > 0),
        has_prefill * c.num_decodes,
        has_prefill * c.decode_context,
        ~has_prefill & (c.follows != AFTER_DECODES),
        cold_prefill,
        cold_prefill * c.prefill_tokens,
        has_prefill & (c.follows == AFTER_IDLE),
        above,
        below,
    )
    return np.stack([np.asarray(t, dtype=np.float64) for t in terms], axis=1)


def _solve(design: FloatArray, seconds: FloatArray, row_weight: FloatArray) -> FloatArray:
    """Non-negative coefficients of the weighted problem, by way of its small triangle."""
    from scipy.optimize import nnls  # heavy: only fitting needs it

    scale = np.abs(design).max(axis=0)
    scale[scale == 0.0] = 1.0
    rows = np.concatenate([design / scale, seconds[:, None]], axis=1) * row_weight[:, None]
    triangle = np.asarray(np.linalg.qr(rows, mode="r"))
    coefficients, _ = nnls(triangle[:, :-1], triangle[:, -1])
    return np.asarray(coefficients / scale, dtype=np.float64)


def fit_roofline(rows: Rows, structure: Structure) -> StepTimeParams:
    """Fit the terms of one structure to `rows`. Host terms and table are left out."""
    used = rows.seconds > 1.1 * structure.floor_s
    seconds = rows.seconds[used]
    design = design_matrix(rows.columns, structure)[used]
    root, predicted = np.sqrt(rows.weight[used]), seconds
    coefficients = np.zeros(len(_TERMS))
    for _ in range(_ROUNDS):
        error = np.abs(seconds / predicted - 1.0)
        limit = _HUBER * max(1.4826 * float(np.median(error)), 1e-9)
        huber = np.minimum(1.0, limit / np.maximum(error, 1e-12))
        coefficients = _solve(design, seconds, root * np.sqrt(huber) / predicted)
        predicted = np.maximum(design @ coefficients, 0.05 * seconds)
    named = dict(zip(_TERMS, coefficients.tolist(), strict=True))
    return plain_params(
        **named,
        upper_knee=structure.upper_knee,
        lower_knee=structure.lower_knee,
        floor_s=structure.floor_s,
    )


def device_seconds(params: StepTimeParams, columns: BatchColumns) -> FloatArray:
    """(S,) device seconds of each batch, by the compiled function."""
    out = np.empty((columns.prefill_tokens.size, 2))
    fill_times(params, columns, columns.num_decodes, False, out)
    return np.ascontiguousarray(out[:, 0])


def relative_errors(predicted: FloatArray, measured: FloatArray) -> FloatArray:
    """|predicted / measured - 1|."""
    return np.asarray(np.abs(predicted / measured - 1.0), dtype=np.float64)


def error_score(predicted: FloatArray, rows: Rows) -> float:
    """Weighted mean of clipped relative errors, averaged over the kinds of steps present."""
    error = np.minimum(relative_errors(predicted, rows.seconds), _CLIP)
    kinds = regions_of(rows.columns)
    parts = [np.average(error[kinds == k], weights=rows.weight[kinds == k]) for k in set(kinds)]
    return float(np.mean(parts))


def fold_of(group: IntArray, num_folds: int, seed: int) -> IntArray:
    """(S,) fold of each row; a group is never split."""
    names, index = np.unique(group, return_inverse=True)
    place = np.random.default_rng(seed).permutation(names.size) % num_folds
    return place[index.ravel()].astype(np.int64)


def held_out_score(rows: Rows, structure: Structure, fold: IntArray) -> float:
    """Error on groups that were left out of the fit."""
    predicted = np.empty(rows.seconds.size)
    for k in np.unique(fold):
        test = fold == k
        params = fit_roofline(rows.select(~test), structure)
        predicted[test] = device_seconds(params, rows.select(test).columns)
    return error_score(predicted, rows)


def choose_structure(rows: Rows, fold: IntArray) -> Structure:
    """The structure with the least held-out error; one more part only where it is worth it."""
    tokens = rows.columns.prefill_tokens + rows.columns.num_decodes
    top = int(np.log2(max(2, tokens.max())))
    knees = [float(2**k) for k in range(2, top + 1)]
    floors = [float(q) for q in np.quantile(rows.seconds, [0.02, 0.1])]
    best = Structure()
    score = held_out_score(rows, best, fold)
    for name, values in (("upper_knee", knees), ("lower_knee", knees), ("floor_s", floors)):
        tried = [replace(best, **{name: value}) for value in values]
        scores = [held_out_score(rows, structure, fold) for structure in tried]
        i = int(np.argmin(scores))
        if scores[i] < min(_WORTH * score, score - _LEAST_GAIN):
            best, score = tried[i], scores[i]
    return best
