"""From searched values to settings that keep the engine's rules, and to a full configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from profiler.engine_config import EngineConfig

_FOLLOWS = {
    "max_num_scheduled_tokens": "max_num_batched_tokens",
    "max_num_active_seqs": "max_num_seqs",
}
"""knob -> the knob whose value is its default (see the knob table)"""


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

    Sequences that nobody gave are at most the token budget. A knob that follows another by default
    (`max_num_active_seqs` follows `max_num_seqs`) follows the new value, not the one the engine
    resolved before.
    """
    full = config.over(resolved).with_default_seqs(config)
    given = config.settings()
    follows = {
        name: getattr(full, leader)
        for name, leader in _FOLLOWS.items()
        if name not in given and getattr(full, leader) != getattr(resolved, leader)
    }
    return replace(full, **follows)
