"""From the `EngineSpec` of a rehearsal to that of the vLLM that plays it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from profiler.engine_config import EngineConfig
from profiler.engines.base import EngineFacts, EngineSpec, kv_blocks_at
from profiler.engines.rehearsal import REHEARSAL
from profiler.engines.vllm.spec import REHEARSAL_WORKER
from profiler.errors import KnobError

LATENCY_MODEL = "latency_model"
"""engine argument: the latency model to rehearse"""
MODEL_KEY = "stallfree_latency_model"
"""key in vLLM's `additional_config`: path of the latency model"""
FACTS = "facts.json"
"""of a profile, beside its latency model"""
_OF_THE_DEVICE = (
    *("max_num_batched_tokens", "max_num_seqs", "max_model_len"),
    *("block_size", "async_scheduling"),
)
"""settings whose defaults are the profiled device's, not those of this machine's vLLM"""
_BARE_DEFAULTS = {
    "max_num_batched_tokens": 8192,
    "max_num_seqs": 1024,
    "block_size": 16,
    "async_scheduling": True,
}
"""vLLM's on an H100 or H200 server (`EngineArgs.get_batch_defaults`), for a latency model without
a profile around it"""
_IN_THE_MODEL = ("tensor_parallel_size", "quantization")
"""engine arguments whose effect is in the latency model and in the number of KV blocks"""
_EXECUTOR = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
"""by its full name, for vLLM's CPU platform replaces "uni", which is about OpenMP"""


def rehearsed_spec(spec: EngineSpec) -> EngineSpec:
    """The vLLM that rehearses `spec`.

    The latency model, a file or in a profile's folder, is `engine_args["latency_model"]`. KV
    blocks and the settings that a vLLM on the GPU would choose by itself come from the profile;
    settings that `spec` gives win.

    Raises
    ------
    KnobError
        No latency model is named, or nobody says how many KV blocks the GPU has.
    LatencyModelError
        The latency model cannot be read.
    """
    arguments = dict(spec.engine_args)
    named = arguments.pop(LATENCY_MODEL, None)
    if not isinstance(named, str):
        raise KnobError(
            "a rehearsal needs a latency model; give engine.args.latency_model: a profile's "
            "folder, its step_time.json, or a shipped one such as example-8b"
        )
    path, facts = find_model(named)
    config = _resolved_as_on_the_device(spec.config, facts)
    if config.num_gpu_blocks_override is None:
        raise KnobError(
            f"nobody says how many KV blocks the GPU of {named} has; give "
            "engine.config.num_gpu_blocks_override, or a profile's folder as latency_model"
        )
    for name in _IN_THE_MODEL:
        arguments.pop(name, None)
    own = {
        "enforce_eager": True,
        "worker_cls": REHEARSAL_WORKER,
        "distributed_executor_backend": _EXECUTOR,
        "additional_config": {MODEL_KEY: str(path)},
    }
    return replace(
        spec,
        config=config,
        load_format="dummy",
        device="auto",
        engine_args={**arguments, **own},
        environment={**spec.environment, "NUMBA_DISABLE_JIT": "1"},
    )


def rehearsed_facts(facts: EngineFacts, vllm: EngineSpec) -> EngineFacts:
    """What the vLLM that `rehearsed_spec` gave says of itself, said of the rehearsal."""
    _, of_model = find_model(vllm.engine_args["additional_config"][MODEL_KEY])
    device = of_model.get("device", "an unnamed device")
    return replace(facts, engine=REHEARSAL, device=f"rehearsed: {device}")


def find_model(named: str) -> tuple[Path, dict[str, Any]]:
    """The latency model's file, and its facts with those of the profile that it is part of.

    Raises `LatencyModelError` when it cannot be read.
    """
    # Not above: it brings numba, which the processes of a computing vLLM may not hold.
    from profiler.latency.base import latency_model_file, load_latency_model

    path = latency_model_file(named).resolve()
    return path, {**_profile_facts(path), **load_latency_model(path).facts}


def _resolved_as_on_the_device(given: EngineConfig, facts: dict[str, Any]) -> EngineConfig:
    """`given` over what the profiled engine resolved by itself, or vLLM's defaults of a large
    GPU."""
    resolved = {**_BARE_DEFAULTS, **facts.get("resolved", {})}
    settings = {name: resolved.get(name) for name in _OF_THE_DEVICE}
    config = given.over(EngineConfig.from_settings(settings)).with_default_seqs(given)
    if config.num_gpu_blocks_override is None:
        blocks = _kv_blocks(facts, config.max_num_batched_tokens)
        config = replace(config, num_gpu_blocks_override=blocks)
    return config


def _kv_blocks(facts: dict[str, Any], budget: int | None) -> int | None:
    """KV blocks of the device, at this token budget where the facts know the difference."""
    known = facts.get("kv_blocks_by_budget")
    if not known or budget is None:
        blocks: int | None = facts.get("num_kv_blocks")
        return blocks
    return kv_blocks_at(budget, known)


def _profile_facts(model_file: Path) -> dict[str, Any]:
    """Facts of the profile that the latency model is part of; none when it is part of none."""
    path = model_file.with_name(FACTS)
    try:
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["facts"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return facts
