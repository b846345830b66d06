"""A study's search space as Optuna wants it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from profiler.knobs import KNOBS
from tuner.space_section import Axis

Axes = Callable[[Mapping[str, Any]], Mapping[str, Axis]]
"""raw values chosen so far -> the axes that apply (`searchable.Searchable.axes`)"""


def distributions(space: Mapping[str, Axis]) -> dict[str, BaseDistribution]:
    """Optuna's form of the search space, in the order of the study file."""
    return {name: _distribution(name, axis) for name, axis in space.items()}


def _distribution(name: str, axis: Axis) -> BaseDistribution:
    if axis.choices is not None:
        return CategoricalDistribution(axis.choices)
    assert axis.low is not None and axis.high is not None  # checked by the study
    knob = KNOBS.get(name.rpartition(".")[2])  # "decode.max_num_seqs" is a pool's max_num_seqs
    if knob is None or knob.kind == "int":
        return IntDistribution(
            int(axis.low), int(axis.high), log=axis.log, step=int(axis.step or 1)
        )
    return FloatDistribution(float(axis.low), float(axis.high), log=axis.log, step=axis.step)


def suggest(trial: optuna.Trial, axes: Axes) -> dict[str, Any]:
    """One raw value per searched axis; which axes there are may depend on earlier values."""
    raw: dict[str, Any] = {}
    while new := {name: axis for name, axis in axes(raw).items() if name not in raw}:
        raw |= {name: _suggest(trial, name, d) for name, d in distributions(new).items()}
    return raw


def _suggest(trial: optuna.Trial, name: str, d: BaseDistribution) -> Any:
    if isinstance(d, CategoricalDistribution):
        return trial.suggest_categorical(name, d.choices)
    if isinstance(d, IntDistribution):
        return trial.suggest_int(name, d.low, d.high, log=d.log, step=d.step)
    assert isinstance(d, FloatDistribution)
    return trial.suggest_float(name, d.low, d.high, log=d.log, step=d.step)


def representable(
    space: Mapping[str, Axis], raw: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, BaseDistribution]]:
    """The values of `raw` that lie inside the space, and their distributions.

    The engine's own default need not lie inside; what does teaches the sampler.
    """
    known = distributions(space)
    inside = {n: raw[n] for n, d in known.items() if n in raw and _holds(d, raw[n])}
    return inside, {name: known[name] for name in inside}


def _holds(distribution: BaseDistribution, value: Any) -> bool:
    if isinstance(distribution, CategoricalDistribution):
        return value in distribution.choices
    assert isinstance(distribution, IntDistribution | FloatDistribution)
    step = distribution.step
    on_grid = step is None or (value - distribution.low) % step == 0
    return distribution.low <= value <= distribution.high and on_grid
