"""What a simulation does not load: each of these costs more time than the simulation itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from profiler.traffic.synthetic import like

HEAVY = {
    "optuna",
    "pandas",
    "plotext",
    "plotly",
    "pyarrow.dataset",
    "pydantic",
    "scipy.optimize",
    "scipy.stats",
    "sklearn",
    "sqlalchemy",
    "streamlit",
    "torch",
    "typer",
    "vllm",
}
IN_PYTHON = """
import numpy as np
from profiler.engine_config import EngineConfig
from profiler.latency.base import load_latency_model
from profiler.traffic.trace import Trace
from tuner.simulator import simulate
config = EngineConfig(
    max_num_batched_tokens=256, max_num_seqs=8, max_model_len=1024, block_size=16
)
trace = Trace(np.zeros(1), np.array([50]), np.array([3]))
simulate(trace, config, load_latency_model("example-8b"), num_kv_blocks=100)
"""
COMMAND = """
from tuner.cli.app import main
sys.argv = ["stallfree", "simulate", *sys.argv[1:]]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
"""
ALLOWED = {"typer", "pydantic", "pandas"}
"""Typer needs Pydantic; Pandas reads recorded traffic, and pyarrow loads it to make arrays"""


def heavy_modules(code: str, *words: str | Path) -> set[str]:
    """Which of `HEAVY` a fresh interpreter has loaded after `code`."""
    script = f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=True
    )
    return HEAVY & set(done.stderr.split())


def test_simulating_in_python_is_light() -> None:
    assert heavy_modules(IN_PYTHON) == set()


def test_simulating_recorded_traffic_is_light(tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    like("azure-conv-2023", rate_rps=5.0, duration_s=5.0, seed=1).save(trace)
    found = heavy_modules(COMMAND, "--trace", trace, "--latency-model", "example-8b", "--json")
    assert found <= ALLOWED


def test_simulating_a_study_is_light(finished_run: Path) -> None:
    assert heavy_modules(COMMAND, finished_run, "--json") <= ALLOWED
