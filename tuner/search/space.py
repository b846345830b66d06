"""From a study's search space to settings, and from settings to a full configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from profiler.engine_config import EngineConfig
from profiler.knobs import KNOBS
from tuner.schema import Axis

_FOLLOWS = {
    "max_num_scheduled_tokens": "max_num_batched_tokens",
    "max_num_active_seqs": "max_num_seqs",
}
"""knob -> the knob whose value is its default (see the knob table)"""


def distributions(space: Mapping[str, Axis]) -> dict[str, BaseDistribution]:
    """Optuna's form of the search space, in the order of the study file."""
    return {name: _distribution(name, axis) for name, axis in space.items()}


def _distribution(name: str, axis: Axis) -> BaseDistribution:
    if axis.choices is not None:
        return CategoricalDistribution(axis.choices)
    assert axis.low is not None and axis.high is not None  # checked by the study
    if KNOBS[name].kind == "int":
        return IntDistribution(
            int(axis.low), int(axis.high), log=axis.log, step=int(axis.step or 1)
        )
    return FloatDistribution(float(axis.low), float(axis.high), log=axis.log, step=axis.step)


def suggest(trial: optuna.Trial, space: Mapping[str, Axis]) -> dict[str, Any]:
    """One raw value per searched knob."""
    return {name: _suggest(trial, name, d) for name, d in distributions(space).items()}


def _suggest(trial: optuna.Trial, name: str, d: BaseDistribution) -> Any:
    if isinstance(d, CategoricalDistribution):
        return trial.suggest_categorical(name, d.choices)
    if isinstance(d, IntDistribution):
        return trial.suggest_int(name, d.low, d.high, log=d.log, step=d.step)
    assert isinstance(d, FloatDistribution)
    return trial.suggest_float(name, d.low, d.high, log=d.log, step=d.step)


def representable(
    space: Mapping[str, Axis], config: EngineConfig
) -> tuple[dict[str, Any], dict[str, BaseDistribution]]:
    """The values of `config` that lie inside the space, and their distributions.

    The engine's own default need not lie inside; what does teaches the sampler.
    """
    settings, inside = config.settings(), {}
    known = distributions(space)
    for name, distribution in known.items():
        if name in settings and _holds(distribution, settings[name]):
            inside[name] = settings[name]
    return inside, {name: known[name] for name in inside}


def _holds(distribution: BaseDistribution, value: Any) -> bool:
    if isinstance(distribution, CategoricalDistribution):
        return value in distribution.choices
    assert isinstance(distribution, IntDistribution | FloatDistribution)
    step = distribution.step
    on_grid = step is None or (value - distribution.low) % step == 0
    return distribution.low <= value <= distribution.high and on_grid


def repair(raw: Mapping[str, Any], fixed: EngineConfig, resolved: EngineConfig) -> EngineConfig:
    """Settings that keep the engine's rules by construction, where the raw values break them.

    max_num_seqs <= max_num_batched_tokens; max_num_active_seqs <= max_num_seqs;
    max_num_scheduled_tokens <= max_num_batched_tokens; a long-prefill cap that is not below the
    step's token budget caps nothing and becomes 0 (off). Only searched knobs are lowered; a fixed
    one that clashes is left for `EngineConfig.check` to refuse.
    """
    chosen = dict(raw)
    full = resolve(EngineConfig(**{**fixed.settings(), **raw}), resolved)
    for name, limit in (
        ("max_num_scheduled_tokens", full.max_num_batched_tokens),
        ("max_num_seqs", full.max_num_batched_tokens),
    ):
        _lower(chosen, name, limit)
    _lower(chosen, "max_num_active_seqs", chosen.get("max_num_seqs", full.max_num_seqs))
    cap = chosen.get("long_prefill_token_threshold")
    budget = _least(full.max_num_batched_tokens, chosen.get("max_num_scheduled_tokens"))
    if cap is not None and budget is not None and cap >= budget:
        chosen["long_prefill_token_threshold"] = 0
    return EngineConfig(**{**fixed.settings(), **chosen})


def _lower(chosen: dict[str, Any], name: str, limit: int | None) -> None:
    if limit is not None and chosen.get(name) is not None and chosen[name] > limit:
        chosen[name] = limit


def _least(*values: int | None) -> int | None:
    return min((v for v in values if v is not None), default=None)


def resolve(config: EngineConfig, resolved: EngineConfig) -> EngineConfig:
    """Every setting: those of `config`, else what the engine resolved at its default.

    A knob that follows another by default (`max_num_active_seqs` follows `max_num_seqs`) follows
    the new value, not the one the engine resolved before.
    """
    full = config.over(resolved)
    given = config.settings()
    follows = {
        name: getattr(full, leader)
        for name, leader in _FOLLOWS.items()
        if name not in given and leader in given
    }
    return replace(full, **follows)
