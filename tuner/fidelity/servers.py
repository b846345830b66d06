"""How the servers behind the published rows were started.

All rows but those of vLLM 0.12.0 come from InferenceX (formerly InferenceMAX), whose launch scripts
are public: github.com/SemiAnalysisAI/InferenceX, `benchmarks/` (`single_node/` from 2026), at the
dates of the measurements. They switch prefix caching off and asynchronous scheduling on, cut
`max_model_len` to little more than the longest request, and leave every other scheduler setting
but those below to the engine. The 0.12.0 rows name no script; they get the engine's defaults.
"""

from __future__ import annotations

from dataclasses import dataclass

from profiler.engine_config import EngineConfig
from profiler.engines.silicon.spec import SiliconSpec
from tuner.fidelity.rows import Row

DEFAULT_BUDGET = 8192
"""of servers on GPUs of 70 GiB and more in vLLM 0.10 to 0.27 (`vllm/engine/arg_utils.py`)"""
MAX_MODEL_LEN = 10240
"""tokens; what most of the scripts set, and no row needs more"""
_TWICE_ISL_FROM = "2026-04-01"
"""date from which the scripts for MiniMax on Blackwell set a budget of twice the prompt"""
_KIMI_TWICE_ISL_FROM = "2026-04-15"
"""the same for Kimi in nvfp4 on B200"""
_H100_KV = "bfloat16"
"""of Llama-3.1-70B on H100, although the script asks for fp8: chosen on half 0, whose two rows with
a queue for KV room (8,192 in, 1,024 out, TP 2, concurrency 32 and 64) have 4 and 5 times the TTFT
that fp8 predicts and 0.8 and 1.0 times that of bfloat16; on H200 it is the other way round"""


@dataclass(frozen=True)
class Server:
    """What a launch script sets."""

    budget: int
    """`--max-num-batched-tokens`"""
    kv_dtype: str = "auto"
    """`--kv-cache-dtype`"""
    memory_fraction: float = 0.9
    """`--gpu-memory-utilization`"""


def server_of(row: Row) -> Server:
    """The server of `row`, by model, GPU and date."""
    if row.family == "MiniMax-M2.5":
        return _minimax(row)
    if row.family == "Kimi-K2.5":
        return _kimi(row)
    if row.family == "Llama-3.1-70B":
        return Server(DEFAULT_BUDGET, _H100_KV if row.system == "h100_sxm" else "fp8")
    late = row.family == "gpt-oss-120b" and row.system == "b200_sxm" and row.measured > "2026"
    return Server(DEFAULT_BUDGET, "fp8" if late else "auto")


def _minimax(row: Row) -> Server:
    blackwell = row.system.startswith("b")
    if blackwell and row.measured >= _TWICE_ISL_FROM:
        return Server(2 * row.isl, "fp8")
    return Server(DEFAULT_BUDGET, memory_fraction=0.9 if row.system == "h100_sxm" else 0.95)


def _kimi(row: Row) -> Server:
    """nvfp4 checkpoints ask for KV in fp8 themselves (`hf_quant_config.json`)."""
    if row.gemm_dtype == "int4_wo":
        return Server(DEFAULT_BUDGET, memory_fraction=0.95)
    twice = row.system == "b200_sxm" and row.measured >= _KIMI_TWICE_ISL_FROM
    return Server(2 * row.isl if twice else DEFAULT_BUDGET, "fp8")


_NAMES = {
    "meta-llama/Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Meta-Llama-3.1-8B",
}
"""rows whose model has another name in the published kernel data"""


def spec_of(row: Row) -> SiliconSpec:
    """The deployment of `row` in terms of the published kernel data."""
    server = server_of(row)
    weights, experts = _formats(row)
    return SiliconSpec(
        model=_NAMES.get(row.model, row.model),
        system=row.system,
        tp=row.tp,
        weight_dtype=weights,
        expert_dtype=experts,
        kv_dtype=server.kv_dtype,
        expert_parallel=row.expert_parallel,
        memory_fraction=server.memory_fraction,
    )


def _formats(row: Row) -> tuple[str, str]:
    """`weight_dtype` and `expert_dtype`.

    Dense models run in the row's format, and so do MiniMax and Kimi in nvfp4. Others run as the
    checkpoint says: gpt-oss rows say nvfp4 while the weights are mxfp4. MiniMax in fp8 on Blackwell
    takes the row's fp8 for all but the experts, because the data's block-scaled kernels cannot be
    what a captured graph replays there: 37 ms for one decode, 29 ms for 16.
    """
    if row.dense or (row.gemm_dtype == "nvfp4" and row.family != "gpt-oss-120b"):
        return row.gemm_dtype or "auto", ""
    if row.family == "MiniMax-M2.5" and row.system.startswith("b"):
        return "fp8", "fp8_block"
    return "auto", ""


def config_of(row: Row) -> EngineConfig:
    """The settings that the simulation takes over the engine's defaults."""
    budget = server_of(row).budget
    return EngineConfig(max_num_batched_tokens=budget, max_num_scheduled_tokens=budget)


SHARED = EngineConfig(
    max_num_batched_tokens=16384,
    max_num_seqs=1024,
    max_model_len=MAX_MODEL_LEN,
    enable_prefix_caching=False,
)
"""what all servers have; the budget is the largest, so that the tables hold every row"""
