"""What vLLM 0.32 resolves its settings to on a GPU server, and the KV blocks it then has."""

from __future__ import annotations

from typing import Any

import numpy as np

from profiler.engine_config import EngineConfig
from profiler.engines.silicon.published import Memory, Published
from profiler.engines.silicon.spec import SiliconSpec
from profiler.errors import DoesNotFitError, SiliconError
from profiler.latency.params import IntArray

_GIB = float(2**30)
_BLOCK_SIZE = 16
_MOST_GPUS = 8
LEAST_TOP_TOKENS = 16384
"""tokens per step up to which every profile goes"""


def server_defaults(gpu: dict[str, Any], system: str) -> EngineConfig:
    """Budget and sequence limit by memory (`vllm/engine/arg_utils.py`, `get_batch_defaults`), and
    the other defaults of the knob table on CUDA."""
    memory_gib = float(gpu["mem_capacity"]) / _GIB
    budget, seqs = 2048, 256
    if memory_gib >= 160:
        budget, seqs = 16384, 1024
    elif memory_gib >= 70 and "a100" not in system:
        budget, seqs = 8192, 1024
    return EngineConfig(
        max_num_batched_tokens=budget,
        max_num_scheduled_tokens=budget,
        max_num_seqs=seqs,
        max_num_active_seqs=seqs,
        long_prefill_token_threshold=0,
        long_prefill_token_threshold_adaptive=False,
        scheduler_reserve_full_isl=True,
        enable_chunked_prefill=True,
        watermark=0.0,
        scheduling_policy="fcfs",
        enable_prefix_caching=True,
        async_scheduling=True,
        block_size=_BLOCK_SIZE,
    )


def capture_sizes(config: EngineConfig, gpu: dict[str, Any]) -> IntArray:
    """Token counts that CUDA graphs are captured for, ascending.

    `vllm/config/vllm.py` `_set_cudagraph_sizes`: 1, 2, 4, then every 8 below 256, then every 16 up
    to twice the sequence limit, at most 512 (1,024 on data-centre Blackwell).
    """
    ceiling = 1024 if int(gpu["sm_version"]) // 10 == 10 else 512
    seqs, budget = config.max_num_seqs or ceiling, config.max_num_batched_tokens or ceiling
    largest = min(2 * seqs, ceiling, budget)
    sizes = [*(1, 2, 4), *range(8, 256, 8), *range(256, largest + 1, 16), seqs, budget]
    return np.array(sorted({n for n in sizes if n <= largest}), dtype=np.int64)


def kv_blocks_by_budget(
    published: Published, spec: SiliconSpec, config: EngineConfig
) -> tuple[tuple[int, int], ...]:
    """(token budget, KV blocks) for budgets in octaves: activations of a larger step leave less.

    Raises `SiliconError` with the numbers when weights or one full request do not fit.
    """
    default = config.max_num_batched_tokens or LEAST_TOP_TOKENS
    octaves = {256 << k for k in range(8) if 256 << k <= max(2 * default, LEAST_TOP_TOKENS)}
    block = config.block_size or _BLOCK_SIZE
    found = []
    for budget in sorted({*octaves, default}):
        memory = published.memory(budget)
        if budget == default:
            _require_room(memory, spec, config)
        found.append((budget, memory.kv_tokens // block))
    return tuple((budget, blocks) for budget, blocks in found if blocks > 1)


def _require_room(memory: Memory, spec: SiliconSpec, config: EngineConfig) -> None:
    share = f"{spec.memory_fraction:g} of {memory.capacity / _GIB:.1f} GiB"
    if memory.left > 0.0 and memory.kv_tokens == 0:
        raise SiliconError(f"the published data has no KV size for {spec.model}; take another")
    if memory.left <= 0.0:
        raise DoesNotFitError(
            f"{spec.model} does not fit {spec.system} at tp={spec.tp}: per GPU "
            f"{memory.weights / _GIB:.1f} GiB of weights, {memory.activations / _GIB:.1f} GiB of "
            f"activations and {memory.others / _GIB:.1f} GiB of buffers, but {share}; "
            f"{_way_out(spec)}"
        )
    length = config.max_model_len or 1
    if memory.kv_tokens < length:
        raise DoesNotFitError(
            f"max_model_len = {length} needs as many tokens of KV cache, {spec.system} has room "
            f"for {memory.kv_tokens} at tp={spec.tp} ({share}); lower max_model_len or "
            f"{_way_out(spec)}"
        )


def _way_out(spec: SiliconSpec) -> str:
    smaller = "or give a smaller weight_dtype" if spec.weight_dtype in ("auto", "bfloat16") else ""
    if spec.tp < _MOST_GPUS:
        return f"raise tp {smaller}".strip()
    return f"take a larger GPU {smaller}".strip()
