"""Which engine confirms a study: the real one, or a rehearsal of its profile."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from profiler.collect.silicon import is_predicted
from profiler.engine_config import EngineConfig
from profiler.engines.base import EngineSpec
from profiler.engines.rehearsal import REHEARSAL
from profiler.engines.rehearsal.spec import LATENCY_MODEL
from profiler.engines.silicon.source import open_model
from tuner.results import RunFolder
from tuner.schema import Study
from tuner.whole_files import writing


def is_rehearsed(study: Study, facts: dict[str, Any]) -> bool:
    """Whether confirming means a rehearsal: asked for, or the profile was made without an engine
    (from published measurements), so that nobody holds the device."""
    return study.engine.name == REHEARSAL or is_predicted(facts)


def confirming_spec(
    study: Study, facts: dict[str, Any], folder: RunFolder, config: EngineConfig
) -> EngineSpec:
    """The engine that confirms `config`. A rehearsal plays the study's profile unless another
    latency model is named; without weights it needs no more of a model than its config.json."""
    spec = study.engine_spec(config)
    if not is_rehearsed(study, facts):
        return spec
    played = study.profile.path
    if is_predicted(facts):
        played = played or str(folder.profile)
        spec = replace(spec, model=rehearsed_model(study, facts, folder))
    spec = replace(spec, engine=REHEARSAL)
    if played is None:
        return spec
    return replace(spec, engine_args={LATENCY_MODEL: played, **spec.engine_args})


def rehearsed_model(study: Study, facts: dict[str, Any], folder: RunFolder) -> str:
    """Model that a rehearsal is started with: of one that was predicted, its config.json."""
    if not is_predicted(facts):
        return study.engine.model
    return _model_folder(str(facts["model"]), folder)


def _model_folder(model: str, folder: RunFolder) -> str:
    """A folder with the config.json of `model`, which may be a name of the published data."""
    if Path(model).is_dir():
        return model
    with writing(folder.model), open_model(model) as (source, _):
        shutil.copytree(source, folder.model, dirs_exist_ok=True)
    return str(folder.model)
