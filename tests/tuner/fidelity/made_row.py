"""A made-up row of the published data."""

from tuner.fidelity.rows import Row

ROW = Row(
    id="r",
    model="meta-llama/Llama-3.1-70B",
    system="h200_sxm",
    gemm_dtype="fp8",
    tp=4,
    expert_parallel=False,
    isl=1024,
    osl=1024,
    concurrency=4,
    ttft_s=0.1,
    tpot_s=0.01,
    engine_version="",
    measured="2025-10-29",
)
