"""A study from the fields of a form: the text of a study file. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from profiler.knobs import KNOBS, Knob


@dataclass(frozen=True)
class Draft:
    """The main fields of a study; None where one is left away."""

    name: str
    traffic: Mapping[str, Any]
    engine: Mapping[str, Any]
    profile: Mapping[str, Any]
    slo: Mapping[str, float | None]
    """seconds"""
    trials: int
    space: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """The study file."""
        limits = {name: limit for name, limit in self.slo.items() if limit is not None}
        study = {
            "name": self.name,
            "traffic": _given(self.traffic),
            "engine": _given(self.engine),
            "profile": _given(self.profile),
            "slo": {"default": limits},
            "search": {"trials": self.trials, "space": dict(self.space)},
        }
        text: str = yaml.safe_dump(study, sort_keys=False, allow_unicode=True)
        return text


def _given(section: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in section.items() if value not in (None, "", {})}


_RANGES: dict[str, Any] = {
    "max_num_batched_tokens": {"low": 256, "high": 16384, "log": True},
    "max_num_scheduled_tokens": {"low": 256, "high": 16384, "log": True},
    "max_num_seqs": {"low": 16, "high": 1024, "log": True},
    "max_num_active_seqs": {"low": 16, "high": 1024, "log": True},
    "long_prefill_token_threshold": [0, 256, 512, 1024, 2048],
}
"""where a search usually looks, as in the shipped studies; everything else: every legal value"""
USUAL = ("max_num_batched_tokens", "max_num_seqs", "long_prefill_token_threshold")


def searchable() -> list[Knob]:
    """Settings that a study may search, in the knob table's order."""
    return [knob for knob in KNOBS.values() if knob.searchable]


def usual_range(name: str) -> str:
    """The values of a setting to begin with, as YAML: {low: 256, high: 16384, log: true}."""
    knob = KNOBS[name]
    values = [False, True] if knob.kind == "bool" else list(knob.choices)
    text: str = yaml.safe_dump(_RANGES.get(name, values), default_flow_style=True, sort_keys=False)
    return text.strip()


def renamed(text: str, name: str) -> str:
    """A study's text with another name; comments stay. Without a name in it, one is added."""
    lines = text.splitlines(keepends=True)
    for index, line in enumerate(lines):
        if line.startswith("name:"):
            lines[index] = f"name: {name}\n"
            return "".join(lines)
    return f"name: {name}\n{text}"
