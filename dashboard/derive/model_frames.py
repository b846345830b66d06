"""What a profile says of itself and how confirmed candidates compare, as frames. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from dashboard.figures.digits import digits
from profiler.latency.report import HeldOutReport
from tuner.candidate import Candidate
from tuner.results import Results

FIGURES = {
    "TTFT p50": ("ttft_p50_s", "ms", 1e3),
    "TTFT p99": ("ttft_p99_s", "ms", 1e3),
    "ITL p50": ("itl_p50_s", "ms", 1e3),
    "ITL p99": ("itl_p99_s", "ms", 1e3),
    "TPOT p99": ("tpot_p99_s", "ms", 1e3),
    "goodput": ("goodput_rps", "requests/s", 1.0),
}
"""name -> key in `Metrics.to_dict`, unit, scale"""


def error_rows(report: HeldOutReport) -> pd.DataFrame:
    """region, size, steps, median and p95 of the absolute relative error, per cent."""
    return pd.DataFrame(
        {
            "region": row.region,
            "size": row.size,
            "steps": row.num_steps,
            "median, %": round(100 * row.median, 2),
            "p95, %": round(100 * row.p95, 2),
        }
        for row in report.rows
    )


def confirmed_errors(results: Results) -> pd.DataFrame:
    """One row per confirmed candidate and figure that both sources have: `error_percent` of the
    prediction against what was confirmed (measured: at the profile's speed), and whether that lies
    `within` the prediction's 90 % interval (None without one)."""
    rows = []
    for candidate in results.candidates:
        predicted, seen = candidate.predicted, candidate.corrected or candidate.measured
        if candidate.measured is None or predicted is None or seen is None:
            continue
        for name, (key, unit, scale) in FIGURES.items():
            told, real = predicted.get(key), seen.get(key)
            if told is None or real is None:
                continue
            ends = predicted["intervals"].get(key)
            whole = ends is not None and None not in ends
            rows.append(
                {
                    "candidate": _name(results, candidate),
                    "figure": name,
                    "unit": unit,
                    "predicted": scale * told,
                    "confirmed": scale * real,
                    "raw": scale * (candidate.measured.get(key) or 0.0),
                    "error_percent": _error_percent(told, real),
                    "within": bool(ends[0] <= real <= ends[1]) if whole and ends else None,
                    "interval": " to ".join(digits(end, scale) for end in ends) if whole else "",
                }
            )
    return pd.DataFrame(rows, columns=_ERROR_COLUMNS)


def _error_percent(told: float, real: float) -> float:
    """Relative; NaN for something where nothing was seen."""
    if real == 0:
        return 0.0 if told == 0 else math.nan
    return 100 * (told / real - 1)


_ERROR_COLUMNS = [
    "candidate",
    "figure",
    "unit",
    "predicted",
    "confirmed",
    "raw",
    "error_percent",
    "within",
    "interval",
]


def _name(results: Results, candidate: Candidate) -> str:
    if candidate.label == results.default.label:
        return "engine default"
    mark = ", recommended" if candidate.label == results.recommended.label else ""
    return candidate.label + mark


def confirmed_table(errors: pd.DataFrame, results: Results) -> pd.DataFrame:
    """The same in columns as people read them."""
    seen = results.evidence.value
    return pd.DataFrame(
        {
            "candidate": errors["candidate"],
            "figure": errors["figure"] + ", " + errors["unit"],
            "predicted": errors["predicted"].map(digits),
            "90 % interval": errors["interval"],
            seen: errors["raw"].map(digits),
            f"{seen}, at profile speed": errors["confirmed"].map(digits),
            "error, %": errors["error_percent"].round(1),
            "within the interval": errors["within"],
        }
    )


def facts_table(facts: Mapping[str, Any]) -> pd.DataFrame:
    """What the profile is of, and how it was made: fact, value."""
    host, made = facts.get("host") or {}, facts.get("provenance") or {}
    blocks, size = facts.get("num_kv_blocks"), facts.get("block_size")
    shape = facts.get("model_shape") or {}
    rows = {
        "engine": f"{facts.get('engine')} {facts.get('version') or ''}".strip(),
        "device": facts.get("device"),
        "GPUs a replica": facts.get("num_gpus"),
        "model": str(facts.get("model")).rsplit("/", 1)[-1],
        "number format": shape.get("dtype"),
        "KV blocks": f"{blocks:,} of {size} tokens" if blocks and size else blocks,
        "KV capacity, tokens": f"{blocks * size:,}" if blocks and size else None,
        "host": ", ".join(str(host[k]) for k in ("processor", "num_cores") if host.get(k)),
        "engine configurations run": facts.get("num_configurations"),
        "profiled for, s": _rounded(facts.get("elapsed_s")),
        "sentinel runs": facts.get("num_sentinels"),
        "made": made.get("date"),
        "by Stallfree": " ".join(str(made.get(k) or "") for k in ("stallfree_version", "commit")),
        "traffic": facts.get("trace_source"),
    }
    known = {name: str(value) for name, value in rows.items() if value not in (None, "", " ")}
    return pd.DataFrame({"fact": list(known), "value": list(known.values())})


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def settings_table(facts: Mapping[str, Any]) -> pd.DataFrame:
    """Every setting as the engine resolved it."""
    resolved = facts.get("resolved") or {}
    return pd.DataFrame({"setting": list(resolved), "value": [str(v) for v in resolved.values()]})


def terms_table(facts: Mapping[str, Any]) -> pd.DataFrame:
    """Of a profile from published GPU data: what is added to GPU time."""
    terms = facts["silicon"].get("terms", {})
    return pd.DataFrame(
        {
            "term": name,
            "value": str(value) if isinstance(value, bool) else f"{value:.4g}",
            "what": TERMS.get(name, ""),
        }
        for name, value in terms.items()
    )


TERMS = {
    "step_s": "seconds per step that nothing hides",
    "host_s": "seconds of host time per step, hidden by asynchronous scheduling",
    "host_per_running_s": "the same for each running request",
    "frontend_s": "seconds from the client to the scheduler",
    "graph_padding": "decodes padded to the sizes of CUDA graphs",
    "chunk_factor": "factor of prompt work: the sustained clock (fitted)",
    "decode_factor": "factor of everything else (fitted)",
    "launch_per_layer_s": "seconds per layer that no step with a chunk undercuts (fitted)",
}
"""name -> what it stands for (`profiler.engines.silicon.spec.Terms`)"""


def calibration_table(facts: Mapping[str, Any]) -> pd.DataFrame:
    """Corrections by measured steps, by region; median errors before and after, per cent."""
    return pd.DataFrame(
        {
            "region": row["region"],
            "steps": row["num_steps"],
            "factor": round(row["factor"], 3),
            "before, %": round(100 * row["before"], 1),
            "after, %": round(100 * row["after"], 1),
        }
        for row in facts["calibration"]["corrections"]
    )
