"""Results to frames. Pure: nothing here knows Streamlit or files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tuner.candidate import Candidate
from tuner.fleet_plan import FleetPlan, in_words, plan_of
from tuner.intervals import ALL, odds
from tuner.results import Results

FIGURES = ("ttft_p99_s", "itl_p99_s", "goodput_rps")
"""what the front keeps of a trial"""
MISSES, MEETS, FRONT = "infeasible", "feasible", "on the front"
"""kinds of trials"""
SETTING = "settings."
"""prefix of a column with one setting"""
_FIGURES = ("ttft_p50_s", "ttft_p99_s", "itl_p50_s", "itl_p99_s", "goodput_rps")


def trials(results: Results) -> pd.DataFrame:
    """One row per predicted trial; see `points`."""
    return points(results.front, results.default)


def points(found: Sequence[Mapping[str, Any]], default: Candidate | None = None) -> pd.DataFrame:
    """One row per predicted trial of a front (`Results.front`), in its order.

    Columns: number; `FIGURES`, NaN where there is none; chance (share of windows that meet every
    SLO, NaN without windows); num_gpus, per_gpu_rps and fleet (of fleets, else NaN and ""); kind;
    settings (text); and each setting that varies, its name after `SETTING`: as it is given, of the
    `default` as the engine resolved it.
    """
    plans = [plan_of(point["settings"]) for point in found]
    frame = pd.DataFrame({"number": [int(point["number"]) for point in found]})
    for name in FIGURES:
        frame[name] = np.array([point[name] for point in found], dtype=np.float64)
    frame["chance"] = np.array([point["chance"].get(ALL) for point in found], dtype=np.float64)
    frame["num_gpus"] = [np.nan if plan is None else plan.num_gpus for plan in plans]
    frame["per_gpu_rps"] = frame["goodput_rps"] / frame["num_gpus"]
    frame["fleet"] = ["" if plan is None else f"{plan.mode} {plan.ratio}" for plan in plans]
    frame["kind"] = [_kind(point) for point in found]
    frame["settings"] = [in_words(point["settings"]) for point in found]
    each = pd.DataFrame([flat_settings(point["settings"]) for point in found], dtype=object)
    varied = [str(name) for name in each if each[name].map(str).nunique() > 1]
    if default is not None:
        resolved = flat_resolved(default)
        rows = np.array([point["settings"] == default.settings for point in found], dtype=bool)
        for name in varied:
            each.loc[rows & each[name].isna(), name] = resolved.get(name)
    return pd.concat([frame, each[varied].add_prefix(SETTING)], axis=1)


def _kind(point: Mapping[str, Any]) -> str:
    if point["on_front"]:
        return FRONT
    return MEETS if point["feasible"] else MISSES


def flat_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of one engine as they are; those of a fleet by the role of the pool:
    `prefill.replicas`, `prefill.max_num_batched_tokens`."""
    plan = plan_of(settings)
    return dict(settings) if plan is None else _flat_plan(plan)


def _flat_plan(plan: FleetPlan) -> dict[str, Any]:
    flat: dict[str, Any] = {"mode": plan.mode, "router": plan.router}
    if plan.decode_router is not None:
        flat["decode_router"] = plan.decode_router
    for pool in plan.pools:
        own = {"replicas": pool.replicas, "tp": pool.tp, **pool.settings}
        flat |= {f"{pool.role}.{name}": value for name, value in own.items()}
    return flat


def flat_resolved(candidate: Candidate) -> dict[str, Any]:
    """Every setting of `candidate`, named as in `flat_settings`."""
    if candidate.plan is None:
        return candidate.resolved
    of_pools = candidate.resolved.items()
    return {f"{role}.{name}": v for role, own in of_pools for name, v in own.items()}


def setting_columns(frame: pd.DataFrame) -> list[str]:
    """The columns of `points` that hold one setting."""
    return [str(name) for name in frame if str(name).startswith(SETTING)]


def coded(values: pd.Series) -> tuple[npt.NDArray[np.float64], list[str] | None]:
    """A setting as numbers.

    Returns
    -------
    (N,) numbers, NaN where it is not given (a pool that the fleet does not have); and for a setting
    that is no number the names of its values, whose places the numbers are; else None.
    """
    given = values.dropna()
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in given):
        return np.asarray(values, dtype=np.float64), None
    names = sorted({str(v) for v in given})
    places = [np.nan if pd.isna(v) else float(names.index(str(v))) for v in values]
    return np.array(places), names


def number_at(results: Results, point: str, candidate: Candidate) -> int | None:
    """The trial that `point` (`session.point`) stands for, which was picked as `candidate`: of
    several with the same settings, the one that was asked for."""
    return int(point) if point.isdecimal() else number_of(results, candidate)


def number_of(results: Results, candidate: Candidate) -> int | None:
    """The trial with the candidate's settings; None when it was not predicted in the search."""
    same = (p["number"] for p in results.front if p["settings"] == candidate.settings)
    return next(same, None)


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


def pairs(results: Results) -> pd.DataFrame:
    """One row per candidate that was measured or rehearsed, empty where none was.

    Columns: label, evidence, number (of its trial, -1 without), num_gpus, and each of `FIGURES`
    twice: `predicted.NAME`, of the requests that were replayed, and `seen.NAME`. NaN where there is
    none.
    """
    rows = []
    for candidate in results.candidates:
        if candidate.measured is not None and candidate.predicted is not None:
            number = number_of(results, candidate)
            row: dict[str, Any] = {
                "label": _role(results, candidate),
                "evidence": results.evidence.value,
                "number": -1 if number is None else number,
                "num_gpus": results.gpus_of(candidate) if candidate.plan is not None else None,
            }
            for name in FIGURES:
                row[f"predicted.{name}"] = candidate.predicted[name]
                row[f"seen.{name}"] = candidate.measured[name]
            rows.append(row)
    frame = pd.DataFrame(rows)
    numbers = [name for name in frame if name not in ("label", "evidence")]
    return frame.astype(dict.fromkeys(numbers, np.float64))


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
