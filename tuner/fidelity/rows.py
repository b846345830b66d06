"""The published end-to-end measurements as plain rows, and why some of them are left out."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

DISAGGREGATED = "prefill and decode on separate engines"
INCOMPLETE = "a length, a parallel width or a figure is missing"
DATA_PARALLEL = "several engine replicas (attention data parallel)"
EXPERT_LAYOUT = "experts both cut and spread, which no engine flag gives"
LISTED_TWICE = "the same measurement is listed twice"

_NEEDED = ("isl", "osl", "batch_size", "tp_size", "silicon_ttft_ms", "silicon_tpot_ms")
_MEASURED = re.compile(r"measured=(\d{4}-\d\d-\d\d)")


@dataclass(frozen=True)
class Row:
    """One closed-loop benchmark run."""

    id: str
    model: str
    """name in the source, for example meta-llama/Llama-3.1-70B"""
    system: str
    gemm_dtype: str
    """number format of the weights as the source says; "" where it does not"""
    tp: int
    expert_parallel: bool
    isl: int
    """longest prompt, tokens"""
    osl: int
    """longest output, tokens"""
    concurrency: int
    ttft_s: float
    """measured mean"""
    tpot_s: float
    """measured mean"""
    engine_version: str
    """"" where the source does not say"""
    measured: str
    """date, YYYY-MM-DD; "" where the source does not say"""

    @property
    def family(self) -> str:
        """Model name without its owner."""
        return self.model.rsplit("/", 1)[-1]

    @property
    def dense(self) -> bool:
        """Whether the model has no experts."""
        return self.family.startswith(("Llama", "Qwen3-32B"))

    @property
    def deployment(self) -> tuple[Any, ...]:
        """What was measured: rows that agree in it are repeats of each other."""
        return (
            self.model,
            self.system,
            self.gemm_dtype,
            self.tp,
            self.expert_parallel,
            self.isl,
            self.osl,
            self.concurrency,
        )

    @property
    def half(self) -> int:
        """0 or 1, by a hash of what was measured, so that repeats are on the same side."""
        digest = hashlib.sha256(repr(self.deployment).encode()).digest()
        return digest[0] % 2


@dataclass(frozen=True)
class Rows:
    """Rows to predict, and how many were left out for which reason."""

    rows: tuple[Row, ...]
    left_out: dict[str, int]

    def without(self, reasons: dict[str, str]) -> Rows:
        """Without the rows whose id has a reason."""
        counts = Counter(self.left_out)
        counts.update(reasons[row.id] for row in self.rows if row.id in reasons)
        kept = tuple(row for row in self.rows if row.id not in reasons)
        return replace(self, rows=kept, left_out=dict(counts))


def read_rows(table: Path, engine: str = "vllm") -> Rows:
    """The rows of `engine` that name one engine with everything a simulation needs."""
    frame = pd.read_csv(table, dtype={"backend_version": "string"})
    frame = frame[frame["backend"] == engine]
    found: list[Row] = []
    reasons: Counter[str] = Counter()
    for record in frame.to_dict("records"):
        reason = _reason(record)
        if reason:
            reasons[reason] += 1
        else:
            found.append(_row(record))
    unique = _unique(found)
    if len(unique) < len(found):
        reasons[LISTED_TWICE] = len(found) - len(unique)
    return Rows(tuple(unique), dict(reasons))


def _reason(record: dict[Any, Any]) -> str:
    """Why this line cannot be predicted; "" when it can."""
    if record["mode"] != "agg":
        return DISAGGREGATED
    if any(pd.isna(record[name]) for name in _NEEDED):
        return INCOMPLETE
    if _number(record["attention_dp_size"], 1) > 1:
        return DATA_PARALLEL
    tp = int(record["tp_size"])
    cut, spread = _number(record["moe_tp_size"], 1), _number(record["moe_ep_size"], 1)
    if min(cut, spread) > 1 or max(cut, spread) not in (1, tp):
        return EXPERT_LAYOUT
    return ""


def _row(record: dict[Any, Any]) -> Row:
    tp = int(record["tp_size"])
    date = _MEASURED.search(str(record["silicon_data_source"]))
    return Row(
        id=str(record["id"]),
        model=str(record["model_path"]),
        system=str(record["system"]),
        gemm_dtype=_text(record["gemm_quant_mode"]),
        tp=tp,
        expert_parallel=tp > 1 and _number(record["moe_ep_size"], 1) == tp,
        isl=int(record["isl"]),
        osl=int(record["osl"]),
        concurrency=int(record["batch_size"]),
        ttft_s=float(record["silicon_ttft_ms"]) * 1e-3,
        tpot_s=float(record["silicon_tpot_ms"]) * 1e-3,
        engine_version=_text(record["backend_version"]),
        measured=date.group(1) if date else "",
    )


def _unique(rows: Iterable[Row]) -> list[Row]:
    """One row of each measurement, the dated one: the source lists some in two collections."""
    kept: dict[tuple[Any, ...], Row] = {}
    for row in sorted(rows, key=lambda row: (row.measured == "", row.id)):
        figures = (f"{row.ttft_s:.4g}", f"{row.tpot_s:.4g}")
        kept.setdefault((*row.deployment, *figures), row)
    return sorted(kept.values(), key=lambda row: row.id)


def _number(value: object, otherwise: int) -> int:
    """A whole number; `otherwise` for a field that is empty or 0 (no experts)."""
    number = float(str(value))
    return int(number) if number > 0 else otherwise


def _text(value: object) -> str:
    return "" if pd.isna(value) else str(value)  # type: ignore[call-overload]
