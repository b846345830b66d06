"""`fit_step_time`: step samples -> `StepTimeModel`."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from profiler.errors import LatencyModelError
from profiler.latency.base import StepTimeModel
from profiler.latency.flexible import choose_table
from profiler.latency.params import StepTimeParams
from profiler.latency.region import SampledRegion, columns_of, joint_cells
from profiler.latency.roofline import (
    Rows,
    balanced_weights,
    choose_structure,
    device_seconds,
    fit_roofline,
    fold_of,
)
from profiler.latency.step_time import REGION_NAMES, FloatArray, IntArray
from profiler.steps import StepSamples

FEWEST_STEPS = 50
NUM_FOLDS = 4
_NUM_RESIDUALS = 64
_FEWEST_GROUPS = 2 * NUM_FOLDS


def usable_steps(samples: StepSamples) -> StepSamples:
    """Steps to fit on: no sentinel (it defines the speed), something scheduled, a time."""
    tokens = samples.prefill_tokens + samples.num_decodes
    return samples.select(~samples.is_sentinel & (tokens > 0) & (samples.exec_s > 0))


def rows_of(samples: StepSamples) -> Rows:
    """What the fits see: device seconds at the reference speed, weights, groups."""
    columns = columns_of(samples)
    return Rows(
        columns=columns,
        seconds=samples.exec_s * samples.speed,
        weight=balanced_weights(columns),
        group=groups_of(samples),
    )


def groups_of(samples: StepSamples) -> IntArray:
    """(S,) what is held out together: configurations; cells of shapes when there are few."""
    if np.unique(samples.configuration).size >= _FEWEST_GROUPS:
        return samples.configuration
    _, cell = np.unique(joint_cells(columns_of(samples)), axis=0, return_inverse=True)
    return cell.ravel().astype(np.int64)


def fit_host(samples: StepSamples) -> tuple[float, float]:
    """Host seconds per step and per running request, from interval - exec of busy steps.

    Steps beyond three times the median are left out: there the engine waited for work.
    """
    spent = (samples.interval_s - samples.exec_s) * samples.speed
    spent = np.where(np.isfinite(spent), spent, -1.0)
    busy = spent >= 0.0
    if not busy.any():
        return 0.0, 0.0
    busy &= spent <= 3.0 * max(float(np.median(spent[busy])), 1e-5)
    running = samples.num_running[busy].astype(np.float64)
    design = np.stack([np.ones(running.size), running], axis=1)
    from scipy.optimize import nnls  # heavy: only fitting needs it

    coefficients, _ = nnls(design, spent[busy])
    return float(coefficients[0]), float(coefficients[1])


def fit_params(samples: StepSamples, seed: int) -> tuple[StepTimeParams, tuple[int, ...]]:
    """Coefficients from usable steps, and the kinds of steps where a table won.

    One thread: the problems are small, and threads that wait for a core of a busy machine make
    them a hundred times slower.
    """
    rows = rows_of(samples)
    fold = fold_of(rows.group, NUM_FOLDS, seed)
    with threadpool_limits(limits=1):
        structure = choose_structure(rows, fold)
        table, won = choose_table(rows, structure, fold, seed)
        params = fit_roofline(rows, structure)
    host_s, host_per_running_s = fit_host(samples)
    params = params._replace(table=table, host_s=host_s, host_per_running_s=host_per_running_s)
    return params, won


def residual_quantiles(measured: FloatArray, predicted: FloatArray) -> FloatArray:
    """(J,) quantiles of measured / predicted at the middles of J equal parts, mean 1."""
    levels = (np.arange(_NUM_RESIDUALS) + 0.5) / _NUM_RESIDUALS
    quantiles = np.quantile(measured / predicted, levels)
    return np.asarray(quantiles / quantiles.mean(), dtype=np.float64)


def fit_step_time(samples: StepSamples, *, seed: int = 0) -> StepTimeModel:
    """Fit the step-latency model: structure and table by held-out error, then all steps.

    Parameters
    ----------
    samples
        Steps with `speed` filled in; sentinel steps are left out.
    seed
        Of the split into folds and of the boosted trees.

    Raises
    ------
    LatencyModelError
        Fewer than 50 usable steps.
    """
    steps = usable_steps(samples)
    if steps.num_steps < FEWEST_STEPS:
        raise LatencyModelError(
            f"a latency model needs at least {FEWEST_STEPS} steps, got {steps.num_steps}; "
            "profile for longer"
        )
    params, won = fit_params(steps, seed)
    columns = columns_of(steps)
    measured = steps.exec_s * steps.speed
    return StepTimeModel(
        params=params,
        frontend_in_s=0.0,
        frontend_out_s=0.0,
        residuals=residual_quantiles(measured, device_seconds(params, columns)),
        region=SampledRegion.of(columns),
        facts={
            "num_steps": steps.num_steps,
            "seed": seed,
            "flexible_regions": [REGION_NAMES[k] for k in won],
        },
    )
