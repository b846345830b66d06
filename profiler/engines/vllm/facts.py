"""What a started vLLM says of itself, as plain JSON values."""

from __future__ import annotations

from typing import Any

from profiler.hardware import this_machine
from profiler.knobs import KNOBS
from profiler.model_spec import index_cache_bytes
from profiler.versions import ABSENT

_RENAMED = {
    "scheduling_policy": "policy",
    "max_num_scheduled_tokens": "max_num_batched_tokens",
    "max_num_active_seqs": "max_num_seqs",
    "num_gpu_blocks_override": "num_gpu_blocks",
    "speculative_method": "method",
}
"""where a resolved setting is found when not under its own name: None falls back to these"""

_WIDE_CACHE = {"float16": 2, "bfloat16": 2}
"""bytes of an element in the formats of a KV cache that are wider than 8 bits"""


def resolved_settings(vllm_config: Any) -> dict[str, Any]:
    """Every knob's value in force. `num_gpu_blocks_override` is the number of blocks there are;
    without speculation there are 0 draft tokens and no method."""
    names = ("scheduler_config", "cache_config", "model_config", "speculative_config")
    parts = tuple(getattr(vllm_config, name) for name in names)
    found = {name: _find(parts, name) for name in KNOBS}
    return found | {"num_speculative_tokens": found["num_speculative_tokens"] or 0}


def _find(parts: tuple[Any, ...], name: str) -> Any:
    for candidate in (name, _RENAMED.get(name, name)):
        for part in parts:
            value = getattr(part, candidate, None)
            if value is not None:
                return value
    return ABSENT.get(name)


def engine_facts(vllm_config: Any, version: str, device: str) -> dict[str, Any]:
    """Facts of a running engine, for `profiler.engines.base.EngineFacts`."""
    model, parallel = vllm_config.model_config, vllm_config.parallel_config
    kept_as = str(vllm_config.cache_config.cache_dtype)
    text = model.hf_text_config.to_dict()
    return {
        "version": version,
        "device": device,
        "resolved": resolved_settings(vllm_config),
        "num_kv_blocks": vllm_config.cache_config.num_gpu_blocks,
        "model_shape": {
            "num_layers": model.get_num_layers(parallel),
            "num_heads": model.get_num_attention_heads(parallel),
            "num_kv_heads": model.get_total_num_kv_heads(),
            "head_size": model.get_head_size(),
            "hidden_size": model.get_hidden_size(),
            "vocab_size": model.get_vocab_size(),
            "dtype": str(model.dtype).removeprefix("torch."),
            "kv_dtype_bytes": {"auto": model.dtype.itemsize, **_WIDE_CACHE}.get(kept_as, 1),
            "kv_latent_size": model.get_head_size() if model.use_mla else 0,
            "kv_index_bytes": index_cache_bytes(text) if model.use_mla else 0,
        },
        "host": this_machine().to_dict(),
    }
