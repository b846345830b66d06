"""Which engine confirms a study: the real one, or a rehearsal of its profile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from profiler.engine_config import EngineConfig
from profiler.engines.base import EngineSpec
from profiler.engines.rehearsal import REHEARSAL
from profiler.engines.rehearsal.spec import LATENCY_MODEL
from tuner.schema import Study


def is_rehearsed(study: Study, facts: dict[str, Any]) -> bool:
    """Whether confirming means a rehearsal: asked for, or the profile was made without an engine
    (from published measurements), so that nobody holds the device."""
    return study.engine.name == REHEARSAL or "silicon" in facts


def confirming_spec(study: Study, facts: dict[str, Any], config: EngineConfig) -> EngineSpec:
    """The engine that confirms `config`. A rehearsal plays the study's finished profile unless
    another latency model is named."""
    spec = study.engine_spec(config)
    if not is_rehearsed(study, facts):
        return spec
    spec = replace(spec, engine=REHEARSAL)
    if study.profile.path is None:
        return spec
    return replace(spec, engine_args={LATENCY_MODEL: study.profile.path, **spec.engine_args})
