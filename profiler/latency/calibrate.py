"""Correcting a latency model with measured steps, and saying by how much.

Of three corrections, one factor, a factor per kind of step, and the small table of factors per kind
(`flexible.fit_table`), the one with the least error on held-out steps is taken; a finer one only
where it is worth it. Host time comes from the measured steps, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from profiler.errors import LatencyModelError
from profiler.latency.base import StepTimeModel
from profiler.latency.fit import (
    NUM_FOLDS,
    fit_host,
    residual_quantiles,
    rows_of,
    usable_steps,
)
from profiler.latency.flexible import fit_table, neutral_table
from profiler.latency.params import NO_TABLE, StepTimeParams
from profiler.latency.region import SampledRegion, columns_of, regions_of
from profiler.latency.roofline import (
    Rows,
    device_seconds,
    error_score,
    fold_of,
    relative_errors,
)
from profiler.latency.step_time import REGION_NAMES, FloatArray
from profiler.steps import StepSamples

FEWEST_STEPS = 20
_WORTH = 0.97
"""a finer correction must bring the held-out error below this share of the coarser one's"""


@dataclass(frozen=True)
class Correction:
    """What a calibration did to one kind of step. Errors are medians of |predicted/measured - 1|,
    both on the measured steps; `after` on steps that were held out."""

    region: str
    num_steps: int
    factor: float
    """median of corrected / uncorrected prediction"""
    before: float
    after: float


@dataclass(frozen=True)
class Calibration:
    """What `calibrate` did. Filled there."""

    form: str
    """one of the names in `FORMS`"""
    corrections: tuple[Correction, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def one_factor(params: StepTimeParams, rows: Rows, seed: int) -> FloatArray:
    """A table with the weighted median of measured / predicted everywhere."""
    del seed
    table = neutral_table()
    table[:, :-1, :] = _median_ratio(params, rows)
    return table


def factor_per_kind(params: StepTimeParams, rows: Rows, seed: int) -> FloatArray:
    """The same for each kind of step that was measured; the common factor for the others."""
    table, kinds = one_factor(params, rows, seed), regions_of(rows.columns)
    for kind in np.unique(kinds):
        table[kind, :-1, :] = _median_ratio(params, rows.select(kinds == kind))
    return table


def _table_of_factors(params: StepTimeParams, rows: Rows, seed: int) -> FloatArray:
    coarse = factor_per_kind(params, rows, seed)
    fine = fit_table(params._replace(table=coarse), rows, seed)
    fine[:, :-1, :] *= coarse[:, :1, :1]
    return fine


FORMS: dict[str, Callable[[StepTimeParams, Rows, int], FloatArray]] = {
    "one factor": one_factor,
    "a factor per kind of step": factor_per_kind,
    "a table of factors per kind of step": _table_of_factors,
}
"""name -> how its table of factors is fitted, from coarse to fine"""


def _median_ratio(params: StepTimeParams, rows: Rows) -> float:
    ratio = rows.seconds / device_seconds(params, rows.columns)
    order = np.argsort(ratio)
    weight = np.cumsum(rows.weight[order])
    return float(ratio[order][np.searchsorted(weight, weight[-1] / 2)])


def calibrate(
    model: StepTimeModel, samples: StepSamples, *, seed: int = 0
) -> tuple[StepTimeModel, Calibration]:
    """`model` corrected with the steps in `samples`, and what that did.

    Raises
    ------
    LatencyModelError
        Fewer than 20 usable steps, or `model` has a table of factors already.
    """
    if model.params.table.size:
        raise LatencyModelError("the latency model is corrected already; start from an uncorrected")
    steps = usable_steps(samples)
    if steps.num_steps < FEWEST_STEPS:
        raise LatencyModelError(
            f"a calibration needs at least {FEWEST_STEPS} measured steps, got {steps.num_steps}; "
            "profile the GPU for longer"
        )
    rows, params = rows_of(steps), model.params
    with threadpool_limits(limits=1):  # see `fit.fit_params`
        held_out = {form: _held_out(form, params, rows, seed) for form in FORMS}
        form = _choose({name: error_score(held_out[name], rows) for name in FORMS})
        table = FORMS[form](params, rows, seed)
    host_s, host_per_running_s = fit_host(steps)
    if host_s == host_per_running_s == 0.0:  # no interval between two busy steps was measured
        host_s, host_per_running_s = params.host_s, params.host_per_running_s
    corrected = params._replace(table=table, host_s=host_s, host_per_running_s=host_per_running_s)
    predicted = device_seconds(corrected, rows.columns)
    calibration = Calibration(form, _corrections(params, corrected, rows, held_out[form]))
    region = _joined(model.region, SampledRegion.of(columns_of(steps)))
    residuals = residual_quantiles(rows.seconds, predicted)
    return replace(model, params=corrected, region=region, residuals=residuals), calibration


def _held_out(form: str, params: StepTimeParams, rows: Rows, seed: int) -> FloatArray:
    """(S,) seconds of each step, by a correction that was fitted without its own group."""
    fold, predicted = fold_of(rows.group, NUM_FOLDS, seed), np.empty(rows.seconds.size)
    for k in np.unique(fold):
        test = fold == k
        table = NO_TABLE if test.all() else FORMS[form](params, rows.select(~test), seed)
        columns = rows.select(test).columns
        predicted[test] = device_seconds(params._replace(table=table), columns)
    return predicted


def _choose(score: dict[str, float]) -> str:
    best, *finer = score
    for name in finer:
        if score[name] < _WORTH * score[best]:
            best = name
    return best


def _corrections(
    params: StepTimeParams, corrected: StepTimeParams, rows: Rows, held_out: FloatArray
) -> tuple[Correction, ...]:
    before, after = (device_seconds(p, rows.columns) for p in (params, corrected))
    kinds = regions_of(rows.columns)
    found = []
    for kind in np.unique(kinds):
        mask = kinds == kind
        found.append(
            Correction(
                region=REGION_NAMES[kind],
                num_steps=int(mask.sum()),
                factor=float(np.median(after[mask] / before[mask])),
                before=float(np.median(relative_errors(before[mask], rows.seconds[mask]))),
                after=float(np.median(relative_errors(held_out[mask], rows.seconds[mask]))),
            )
        )
    return tuple(found)


def _joined(first: SampledRegion, second: SampledRegion) -> SampledRegion:
    """What either of the two covers."""
    a, b, c = (m + n for m, n in zip(first.counts, second.counts, strict=True))
    return SampledRegion(
        counts=(a, b, c),
        low=np.minimum(first.low, second.low),
        high=np.maximum(first.high, second.high),
        cells=np.unique(np.concatenate([first.cells, second.cells]), axis=0),
    )
