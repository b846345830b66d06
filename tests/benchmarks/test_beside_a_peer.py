"""The simulator beside a public one, aisimulate, on the same trace and comparable settings.

It needs other versions of our libraries, so it gets an environment of its own, `.bench-venv`, made
at the first run. Its optimizers and plots (JAX and so on, 1 GB) are left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_simulator_speed import AZURE, AZURE_BLOCKS, ITL_LIMIT_S

from profiler.latency.base import load_latency_model
from profiler.traffic.readers import read_trace
from profiler.traffic.trace import Trace
from tuner.metrics import Metrics, compute
from tuner.simulator import simulate
from tuner.slo import Slo

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".bench-venv"
PEER = "aisimulate==0.13.0.dev202610270000000085"
NEEDS = (
    *("numpy", "pandas", "pyarrow", "pydantic", "pyyaml"),
    *("packaging", "psutil", "cloudpickle", "ijson"),
)
NUM_REQUESTS, NUM_WARM_UP, ROUNDS = 10_000, 200, 2
TIMINGS = {
    "default": "from its own tables for the same model and GPU",
    "polynomial": "from its own polynomial, its cheapest",
}
SLO = Slo.build(("default",), {"itl_p99_s": float(ITL_LIMIT_S[0])}, {})


@pytest.fixture(scope="module")
def peer_python() -> Path:
    """Python of the peer's environment; skips when the peer cannot be installed."""
    python, done = PLACE / "bin" / "python", PLACE / ".installed"
    if done.is_file() and done.read_text() == PEER:
        return python
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    try:
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(PLACE)],
            [*pip, "--retries", "1", "--no-deps", PEER],
            [*pip, *NEEDS],
        ):
            subprocess.run(command, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        why = (error.stderr.strip().splitlines() or ["pip failed"])[-1]
        pytest.skip(f"{PEER} cannot be installed into {PLACE}: {why}")
    done.write_text(PEER)
    return python


def write_mooncake(trace: Trace, path: Path) -> Path:
    """The trace in Mooncake's format, no two requests with a common prefix."""
    start = 0
    with path.open("w") as file:
        for t, prompt, output in zip(
            trace.arrival_s, trace.prompt_tokens, trace.output_tokens, strict=True
        ):
            end = start - -int(prompt) // 512
            row = {
                "timestamp": 1e3 * float(t),
                "input_length": int(prompt),
                "output_length": int(output),
                "hash_ids": list(range(start, end)),
            }
            file.write(json.dumps(row) + "\n")
            start = end
    return path


def run_peer(python: Path, paths: list[Path], timing: str) -> dict[str, Any]:
    """What `peer_aisimulate.py` prints."""
    settings = {
        "budget": AZURE.max_num_batched_tokens,
        "seqs": AZURE.max_num_seqs,
        "block_size": AZURE.block_size,
        "blocks": AZURE_BLOCKS,
    }
    script = Path(__file__).with_name("peer_aisimulate.py")
    plain = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [python, script, *paths, timing, json.dumps(settings)],
        capture_output=True,
        text=True,
        check=True,
        env=plain,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run_ours(path: Path) -> tuple[Metrics, float, float]:
    """Our figures, and CPU seconds with and without reading the trace."""
    model, started = load_latency_model("example-8b"), time.process_time()
    trace = read_trace(path).trace
    read = time.process_time()
    done = simulate(trace, AZURE, model, num_kv_blocks=AZURE_BLOCKS, itl_limit_s=ITL_LIMIT_S)
    metrics = compute(done.outcomes, SLO)
    end = time.process_time()
    return metrics, end - started, end - read


@pytest.mark.bench
@pytest.mark.timeout(1800)
def test_beside_aisimulate(azure_trace_path: Path, peer_python: Path, tmp_path: Path) -> None:
    trace = read_trace(azure_trace_path).trace
    end_s = float(np.nextafter(trace.arrival_s[NUM_REQUESTS - 1], np.inf))
    path = write_mooncake(trace.slice(0.0, end_s), tmp_path / "trace.jsonl")
    warm_up = trace.slice(0.0, float(trace.arrival_s[NUM_WARM_UP]))
    paths = [write_mooncake(warm_up, tmp_path / "warm-up.jsonl"), path]
    run_ours(paths[0])  # warm-up
    ours: list[tuple[Metrics, float, float]] = []
    theirs: dict[str, list[dict[str, Any]]] = {timing: [] for timing in TIMINGS}
    for _ in range(ROUNDS):  # in turn, because the machine's speed drifts
        ours += [run_ours(path) for _ in range(3)]
        for timing, runs in theirs.items():
            runs.append(run_peer(peer_python, paths, timing))
    for timing, runs in theirs.items():
        print(describe(timing, runs, ours))
        assert runs[0]["num_requests"] == ours[0][0].num_requests


def describe(
    timing: str, runs: list[dict[str, Any]], ours: list[tuple[Metrics, float, float]]
) -> str:
    """Both in requests per CPU second, the ratio, and what differs; the best run of each."""
    metrics, peer, n = ours[0][0], runs[0], runs[0]["num_requests"]
    whole, own = (min(run[i] for run in ours) for i in (1, 2))
    spent = min(min(run["cpu_s"]) for run in runs)
    return (
        f"\nAzure conversation 2023, first {n:,} requests, budget {AZURE.max_num_batched_tokens}, "
        f"{AZURE.max_num_seqs} sequences, {AZURE_BLOCKS:,} blocks of {AZURE.block_size} tokens, no "
        f"prefix cache, an 8B model on one H200: Stallfree {n / own:,.0f} requests per CPU second "
        f"({n / whole:,.0f} with reading the file), {PEER} {n / spent:,.0f} (always with "
        f"reading it): {spent / own:,.0f} times as fast ({spent / whole:,.0f} with reading). "
        f"Different: its step times are {TIMINGS[timing]}; its copy of the scheduler is its own. "
        f"Mean TTFT {1e3 * metrics.ttft_mean_s:.1f} and {peer['mean_ttft_ms']:.1f} ms, p99 "
        f"{1e3 * metrics.ttft_p99_s:.0f} and {peer['p99_ttft_ms']:.0f} ms, mean TPOT "
        f"{1e3 * metrics.tpot_mean_s:.2f} and {peer['mean_tpot_ms']:.2f} ms"
    )
