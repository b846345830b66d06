"""Results to frames. Pure: nothing here knows Streamlit or files."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tuner.candidate import Candidate
from tuner.fleet_plan import in_words
from tuner.intervals import odds
from tuner.results import Results

_FIGURES = ("ttft_p50_s", "ttft_p99_s", "itl_p50_s", "itl_p99_s", "goodput_rps")


def trials(results: Results) -> pd.DataFrame:
    """One row per predicted trial: the figures, settings as text, and what the trial is."""
    frame = pd.DataFrame(results.front)
    frame["settings"] = [in_words(s) for s in frame["settings"]]
    frame["kind"] = "infeasible"
    frame.loc[frame["feasible"], "kind"] = "feasible"
    frame.loc[frame["on_front"], "kind"] = "on the front"
    return frame


def confirmed(results: Results) -> pd.DataFrame:
    """One row per candidate and source (predicted, measured or rehearsed, corrected)."""
    seen = results.evidence.value
    rows = [
        {
            "candidate": c.label,
            "role": _role(results, c),
            "source": source,
            **_fleet(c, metrics),
            **_figures(metrics),
        }
        for c in results.candidates
        for source, metrics in (
            ("predicted", c.predicted),
            (seen, c.measured),
            (f"{seen}, at profile speed", c.corrected if seen == "measured" else None),
        )
        if metrics is not None
    ]
    return pd.DataFrame(rows)


def _fleet(candidate: Candidate, metrics: dict[str, Any]) -> dict[str, Any]:
    """What a fleet is, and its goodput per GPU; nothing for one engine."""
    plan = candidate.plan
    if plan is None:
        return {}
    return {
        "fleet": plan.words(),
        "GPUs": plan.num_gpus,
        "goodput per GPU": metrics["goodput_rps"] / plan.num_gpus,
    }


def _figures(metrics: dict[str, Any]) -> dict[str, Any]:
    """The figures, 90 % intervals of the p99s as text, and the chance to meet the SLOs."""
    intervals = {
        f"{name}, 90 %": "-".join(f"{end:.3g}" for end in metrics["intervals"].get(name, ()))
        for name in ("ttft_p99_s", "itl_p99_s")
    }
    figures = {name: metrics[name] for name in _FIGURES}
    return {**figures, **intervals, "chance to meet": odds(metrics)}


def _role(results: Results, candidate: Candidate) -> str:
    if candidate.label == results.recommended.label:
        return "recommended"
    return "engine default" if candidate.label == results.default.label else "candidate"
