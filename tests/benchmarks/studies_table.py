"""Tune every shipped study of a GPU as a user would, and print the README's table (Markdown).

Run by `make studies`:
    python tests/benchmarks/studies_table.py
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tuner.study import load_study

FOLDER = Path(__file__).resolve().parents[2] / "studies"
_HEAD = ("study", "configuration", "goodput per GPU", "TTFT p99, s", "ITL p99, ms", "TPOT p99, ms")
_TAIL = ("chance to meet the SLOs", "CPU time, s")


def gpu_studies() -> list[Path]:
    """The shipped studies of one engine predicted from published measurements, by name."""
    loaded = {path: load_study(path) for path in sorted(FOLDER.glob("*.yaml"))}
    return [p for p, s in loaded.items() if s.profile.silicon is not None and s.fleet is None]


def run(study: Path, *options: str) -> tuple[dict[str, Any], float]:
    """What `stallfree tune STUDY --json` prints, and the CPU seconds that it took."""
    program = "from tuner.cli.app import main; main()"
    with TemporaryDirectory() as out:
        words = [sys.executable, "-c", program, "tune", str(study), "--json", *options]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*words, "--out", out], stdout=subprocess.PIPE, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return json.loads(done.stdout), sum(after[:2]) - sum(before[:2])


def rows(results: dict[str, Any], cpu_s: float) -> list[list[str]]:
    """The engine default and the recommended configuration as cells of the table."""
    shown = {"engine default": "default", "recommended": "recommended"}
    found = []
    for label, name in shown.items():
        metrics, settings = results[name]["predicted"], _settings(results[name])
        per_gpu = results["goodput_per_gpu_rps"][name]
        cells = [results["study"] if name == "default" else "", f"{label}: {settings}"]
        cells += [f"{per_gpu:.2f}", _by_class(metrics, "ttft_p99_s", 1)]
        cells += [_by_class(metrics, key, 1e3) for key in ("itl_p99_s", "tpot_p99_s")]
        windows = metrics["num_windows"]
        chance = f"{round(metrics['chance']['all'] * windows)}/{windows}"
        found.append([*cells, chance, f"{cpu_s:.0f}" if name == "default" else ""])
    return found


_SHORT = {
    "max_num_batched_tokens": "budget",
    "max_num_seqs": "sequences",
    "long_prefill_token_threshold": "long-prefill cap",
}


def _settings(candidate: dict[str, Any]) -> str:
    """The settings that decide, as the engine resolved them, and the searched ones."""
    resolved = candidate["resolved"]
    words = [f"{short} {resolved[name]:,}" for name, short in _SHORT.items() if resolved[name]]
    others = {k: v for k, v in candidate["settings"].items() if k not in _SHORT}
    return ", ".join(words + [f"`{k}` {str(v).lower()}" for k, v in others.items()])


def _by_class(metrics: dict[str, Any], key: str, scale: float) -> str:
    parts = metrics["classes"] or {"": metrics}
    return ", ".join(f"{name} {_number(m[key] * scale)}".strip() for name, m in parts.items())


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


def table(lines: list[list[str]]) -> str:
    """Markdown."""
    head = [*_HEAD, *_TAIL]
    return "\n".join("| " + " | ".join(c) + " |" for c in (head, ["---"] * len(head), *lines))


def main() -> None:
    lines = []
    for study in gpu_studies():
        lines += rows(*run(study))
    print(table(lines))


if __name__ == "__main__":
    main()
