"""Whether the latency model can be believed, in sentences. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from profiler.latency.report import HeldOutReport
from profiler.latency.step_time import REGION_NAMES
from tuner.candidate import Evidence
from tuner.results import Results

_FEATURES = {
    "prefill_tokens": "prompt tokens",
    "num_decodes": "decodes",
    "decode_depth": "context per decode",
}


def answer(report: HeldOutReport, facts: Mapping[str, Any]) -> str:
    """The median error by kind of step, one sentence."""
    whole = next(row for row in report.rows if row.region == "all")
    parts = [
        f"{row.region} {_percent(row.median)}"
        for name in REGION_NAMES
        for row in report.rows
        if row.region == name and row.size == "all"
    ]
    by_kind = f": {', '.join(parts)}" if parts else ""
    if "silicon" in facts:
        return (
            f"No step was measured here: step times come from published GPU data, which the tables "
            f"reproduce within {_percent(whole.median)} in the median{by_kind}."
        )
    return (
        f"Steps that it has not seen are predicted within {_percent(whole.median)} in the "
        f"median{by_kind}."
    )


def of_the_machine(report: HeldOutReport, facts: Mapping[str, Any]) -> list[str]:
    """What no model could do better, and what the published data leaves open."""
    lines = []
    if report.step_noise is not None:
        lines.append(
            f"Steps of one shape differ by {_percent(report.step_noise)} from one to the next on "
            "this machine: no model can have a lower median error."
        )
    if report.sentinel_spread is not None:
        lines.append(
            f"The machine's own speed moved by {_percent(report.sentinel_spread)} (5th to 95th "
            "percentile of the sentinel) while it was profiled; step times are brought to one "
            "speed by it."
        )
    if "silicon" in facts:
        lines.append(_sources(facts["silicon"]))
        lines.append(
            "How far such predictions are from published end-to-end runs of real GPUs: `stallfree "
            "fidelity --silicon`. To correct them by measured steps of your GPU: "
            "`profile.silicon.calibrate`."
        )
    return lines


def _sources(silicon: Mapping[str, Any]) -> str:
    words = {"silicon": "measured", "mixed": "partly measured", "empirical": "estimated"}
    shares = ", ".join(
        f"{share:.0%} {words.get(name, name)}"
        for name, share in sorted(silicon["sources"].items(), key=lambda item: -item[1])
    )
    return (
        f"GPU times: {silicon['package']}, measured under {silicon['data_version']} on "
        f"{silicon['system']} ({shares} by its own account)."
    )


def of_candidates(errors: pd.DataFrame, results: Results) -> str:
    """How far the predictions were from what was confirmed, one sentence."""
    if results.evidence is Evidence.PREDICTED:
        return (
            "No candidate was confirmed: all figures of this run are predicted; `stallfree "
            "confirm` replays the best on a real engine, or rehearses them."
        )
    if errors.empty:
        return f"No candidate has {results.evidence.value} figures to compare with."
    parts = []
    for name, group in errors.groupby("figure", sort=False):
        low, high = group["error_percent"].min(), group["error_percent"].max()
        if math.isnan(low):
            parts.append(f"{name} predicted where there was none")
            continue
        ends = f"{low:+.0f} %" if round(low) == round(high) else f"{low:+.0f} to {high:+.0f} %"
        parts.append(f"{name} {ends}")
    held = errors["within"].dropna()
    inside = f"; {int(held.sum())} of {len(held)} lie in the predicted 90 % interval"
    measured = results.evidence is Evidence.MEASURED
    speed = " brought to the profile's machine speed" if measured else ""
    return (
        f"{errors['candidate'].nunique()} configurations {results.evidence.value}, predicted "
        f"against that{speed}: {', '.join(parts)}{inside if len(held) else ''}."
    )


def of_coverage(found: Mapping[str, Any]) -> str:
    """How much of what is simulated lies beyond what was sampled."""
    if found["simulated"] is None:
        return f"No simulated steps are drawn over it: {found['why']}."
    num = found["simulated"]["num_steps"]
    if not found["beyond"]:
        return f"None of the {num:,} simulated steps goes beyond the largest sampled step."
    parts = [f"{_percent(share)} by {_FEATURES[name]}" for name, share in found["beyond"].items()]
    return f"Of the {num:,} simulated steps, beyond the largest sampled one are {', '.join(parts)}."


def of_residuals(found: Mapping[str, Any]) -> str:
    """Share of steps close to the prediction, and bias, by region; of a profile from published
    data, what the added terms amount to."""
    if found["predicted_profile"]:
        parts = [f"{name} {100 * one['bias']:+.1f} %" for name, one in found["regions"].items()]
        return f"Added terms change the GPU time of a step by, typically: {', '.join(parts)}."
    parts = [
        f"{name}: {one['close']:.0%} within 10 %, typically {100 * one['bias']:+.1f} %"
        for name, one in found["regions"].items()
    ]
    return "; ".join(parts) + "."


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.001 or share == 0 else f"{100 * share:.2g} %"
