"""Start-up: a warm process from its start to the end of its first simulation, and the first
compile. Run by `make bench`; prints, and asserts only that the figures exist."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from profiler.traffic.readers import read_trace

RUNS = 7
IMPORT = "import time; start = time.perf_counter()\n"
SIMULATE = """
import sys
from pathlib import Path
from profiler.latency.base import load_latency_model
from profiler.traffic.trace import Trace
from tuner.simulator import simulate
from profiler.engine_config import EngineConfig
config = EngineConfig(
    max_num_batched_tokens=2048, max_num_seqs=256, max_model_len=32768, block_size=16
)
trace = Trace.load(Path(sys.argv[1]))
simulate(trace, config, load_latency_model("example-8b"), num_kv_blocks=55_000)
"""
COMMAND = "from tuner.cli.app import main; main()"
END = "\nprint(time.perf_counter() - start)"


def seconds_inside(code: str, *words: Path) -> float:
    """From the first import to the end of `code`, in a process of its own."""
    script = IMPORT + code + END
    done = subprocess.run(
        [sys.executable, "-c", script, *words], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def seconds_of_command(*words: str | Path) -> float:
    """A whole `stallfree` process."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", COMMAND, *words], check=True, capture_output=True)
    return time.perf_counter() - started


@pytest.mark.bench
def test_warm_start(azure_trace_path: Path, tmp_path: Path) -> None:
    """In turn with a bare `import numba`, because the machine's speed drifts."""
    stored = tmp_path / "azure.parquet"
    read_trace(azure_trace_path).trace.save(stored)
    kinds = {
        "import numba": lambda: seconds_inside("import numba"),
        "import, load the trace and simulate it": lambda: seconds_inside(SIMULATE, stored),
        "`stallfree simulate --trace AZURE.csv --json`, the whole process": lambda: (
            seconds_of_command(
                *("simulate", "--trace", azure_trace_path),
                *("--latency-model", "example-8b", "--json"),
            )
        ),
    }
    spent: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(RUNS + 1):
        for name, measure in kinds.items():
            spent[name].append(measure())
    print()
    for name, seconds in spent.items():
        warm = seconds[1:]
        print(f"{name}: min {min(warm):.2f} s, median {statistics.median(warm):.2f} s")
        assert min(warm) > 0


@pytest.mark.bench
@pytest.mark.parametrize("names", [["engine"], []])
def test_first_compile(tmp_path: Path, names: list[str]) -> None:
    """That of one engine, which simulating a configuration needs, and all."""
    done = subprocess.run(
        [sys.executable, "-m", "tuner.simulator", *names],
        env=os.environ | {"STALLFREE_CACHE": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    )
    print(f"\nfrom scratch: {', '.join(done.stdout.splitlines())}")
    assert "kernels ready" in done.stdout
