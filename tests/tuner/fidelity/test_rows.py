"""The published rows: what is read, what is left out, and how they are split."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.fidelity.rows import (
    DATA_PARALLEL,
    DISAGGREGATED,
    EXPERT_LAYOUT,
    INCOMPLETE,
    LISTED_TWICE,
    Row,
    read_rows,
)

GOOD = {
    "id": "a",
    "silicon_data_source": "file; measured=2026-03-11T00:00:00.000Z; run=1",
    "backend": "vllm",
    "backend_version": "0.17.0",
    "model_path": "moonshotai/Kimi-K2.5",
    "system": "b200_sxm",
    "mode": "agg",
    "isl": "1024",
    "osl": "8192",
    "gemm_quant_mode": "nvfp4",
    "batch_size": "16.0",
    "tp_size": "4.0",
    "attention_dp_size": "1.0",
    "moe_tp_size": "1.0",
    "moe_ep_size": "4.0",
    "silicon_ttft_ms": "180.5",
    "silicon_tpot_ms": "12.5",
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """One line of each kind."""
    lines = [
        GOOD,
        GOOD | {"id": "other engine", "backend": "sglang"},
        GOOD | {"id": "pd", "mode": "disagg"},
        GOOD | {"id": "no tp", "tp_size": ""},
        GOOD | {"id": "no tpot", "silicon_tpot_ms": ""},
        GOOD | {"id": "dp", "attention_dp_size": "4.0"},
        GOOD | {"id": "mixed", "moe_tp_size": "2.0", "moe_ep_size": "2.0"},
        GOOD | {"id": "wide", "moe_ep_size": "16.0"},
        GOOD | {"id": "again", "silicon_data_source": "gap-analysis.csv"},
        GOOD | {"id": "rerun", "silicon_ttft_ms": "190.0"},
        GOOD
        | {
            "id": "dense",
            "model_path": "Qwen/Qwen3-32B",
            "gemm_quant_mode": "",
            "attention_dp_size": "",
            "moe_tp_size": "",
            "moe_ep_size": "0",
            "silicon_data_source": "somewhere",
        },
    ]
    path = tmp_path / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(GOOD))
        writer.writeheader()
        writer.writerows(lines)
    return path


def test_reads_and_leaves_out_by_reason(table: Path) -> None:
    rows = read_rows(table)
    assert [row.id for row in rows.rows] == ["a", "dense", "rerun"]
    assert rows.left_out == {
        DISAGGREGATED: 1,
        INCOMPLETE: 2,
        DATA_PARALLEL: 1,
        EXPERT_LAYOUT: 2,
        LISTED_TWICE: 1,
    }


def test_fields(table: Path) -> None:
    kimi, dense, _ = read_rows(table).rows
    assert kimi == Row(
        id="a",
        model="moonshotai/Kimi-K2.5",
        system="b200_sxm",
        gemm_dtype="nvfp4",
        tp=4,
        expert_parallel=True,
        isl=1024,
        osl=8192,
        concurrency=16,
        ttft_s=pytest.approx(0.1805),
        tpot_s=pytest.approx(0.0125),
        engine_version="0.17.0",
        measured="2026-03-11",
    )
    assert (kimi.family, kimi.dense) == ("Kimi-K2.5", False)
    assert (dense.dense, dense.gemm_dtype, dense.measured) == (True, "", "")
    assert not dense.expert_parallel


def test_without_adds_to_the_counts(table: Path) -> None:
    rows = read_rows(table).without({"a": DISAGGREGATED, "dense": "does not fit"})
    assert [row.id for row in rows.rows] == ["rerun"]
    assert rows.left_out[DISAGGREGATED] == 2
    assert rows.left_out["does not fit"] == 1


def test_halves_are_stable_and_keep_repeats_together(table: Path) -> None:
    kimi, _, rerun = read_rows(table).rows
    assert kimi.half == rerun.half
    halves = [replace(kimi, concurrency=c).half for c in range(1, 201)]
    assert halves[:12] == [replace(kimi, concurrency=c).half for c in range(1, 13)]
    assert 70 < sum(halves) < 130
