"""How the benchmark's servers were started."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_row import ROW as MADE

from tuner.fidelity.rows import Row
from tuner.fidelity.servers import Server, config_of, server_of, spec_of

ROW = replace(
    MADE,
    model="MiniMaxAI/MiniMax-M2.5",
    system="b200_sxm",
    expert_parallel=True,
    engine_version="0.19.0",
    measured="2026-04-22",
)


@pytest.mark.parametrize(
    ("row", "server"),
    [
        (ROW, Server(2048, "fp8", 0.9)),
        (replace(ROW, measured="2026-03-11"), Server(8192, "auto", 0.95)),
        (replace(ROW, system="h100_sxm"), Server(8192, "auto", 0.9)),
        (
            replace(ROW, model="moonshotai/Kimi-K2.5", gemm_dtype="int4_wo"),
            Server(8192, "auto", 0.95),
        ),
        (replace(ROW, model="moonshotai/Kimi-K2.5", gemm_dtype="nvfp4"), Server(2048, "fp8", 0.9)),
        (replace(ROW, model="openai/gpt-oss-120b"), Server(8192, "fp8", 0.9)),
        (replace(ROW, model="openai/gpt-oss-120b", system="h200_sxm"), Server(8192, "auto", 0.9)),
        (replace(ROW, model="meta-llama/Llama-3.1-70B"), Server(8192, "fp8", 0.9)),
        (replace(ROW, model="Qwen/Qwen3-32B", measured=""), Server(8192, "auto", 0.9)),
    ],
)
def test_server(row: Row, server: Server) -> None:
    assert server_of(row) == server
    assert config_of(row).max_num_batched_tokens == server.budget
    spec = spec_of(row)
    assert (spec.kv_dtype, spec.memory_fraction) == (server.kv_dtype, server.memory_fraction)
    assert (spec.tp, spec.expert_parallel) == (4, True)


@pytest.mark.parametrize(
    ("model", "system", "dtype", "weights", "experts"),
    [
        ("meta-llama/Llama-3.1-70B", "h200_sxm", "fp8", "fp8", ""),
        ("Qwen/Qwen3-32B", "h100_sxm", "", "auto", ""),
        ("MiniMaxAI/MiniMax-M2.5", "b300_sxm", "fp8", "fp8", "fp8_block"),
        ("MiniMaxAI/MiniMax-M2.5", "h200_sxm", "fp8", "auto", ""),
        ("MiniMaxAI/MiniMax-M2.5", "b200_sxm", "nvfp4", "nvfp4", ""),
        ("openai/gpt-oss-120b", "b200_sxm", "nvfp4", "auto", ""),
        ("moonshotai/Kimi-K2.5", "h200_sxm", "int4_wo", "auto", ""),
    ],
)
def test_formats(model: str, system: str, dtype: str, weights: str, experts: str) -> None:
    spec = spec_of(replace(ROW, model=model, system=system, gemm_dtype=dtype))
    assert (spec.weight_dtype, spec.expert_dtype) == (weights, experts)


def test_names_in_the_kernel_data() -> None:
    assert spec_of(replace(ROW, model="meta-llama/Llama-3.1-70B")).model.endswith(
        "Meta-Llama-3.1-70B"
    )
