"""Tables of fleets, with words and units as people read them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from dashboard.derive.fleet_frames import MODES
from tuner.candidate import Candidate
from tuner.fleet_plan import FleetPlan, plan_of
from tuner.intervals import odds
from tuner.results import Results


def candidate_fleets(results: Results) -> pd.DataFrame:
    """One row per candidate, predicted on all traffic (or on what was replayed): for a table."""
    rows = []
    for candidate in results.candidates:
        plan, figures = candidate.plan, candidate.predicted
        if plan is None:
            continue
        rows.append(
            {
                "candidate": _name(results, candidate),
                "fleet": f"{MODES[plan.mode]} {plan.ratio}",
                "GPUs": plan.num_gpus,
                "GPUs a replica": ":".join(str(pool.tp) for pool in plan.pools),
                "router": " / ".join(filter(None, (plan.router, plan.decode_router))),
                "settings": _settings(plan),
                **_figures(figures, plan),
                "failure": candidate.failure or "",
            }
        )
    return pd.DataFrame(rows)


def _name(results: Results, candidate: Candidate) -> str:
    name = "engine default" if candidate.label == results.default.label else candidate.label
    return f"{name}, recommended" if candidate.label == results.recommended.label else name


def _settings(plan: FleetPlan) -> str:
    names = dict.fromkeys(name for pool in plan.pools for name in pool.settings)
    return ", ".join(f"{name} {plan.each(name)}" for name in names)


def _figures(figures: dict[str, Any] | None, plan: FleetPlan) -> dict[str, Any]:
    if figures is None:
        names = ("goodput per GPU, requests/s", "TTFT p99, ms", "ITL p99, ms")
        return dict.fromkeys(names) | {"meets the SLOs": None, "chance to meet": "-"}
    return {
        "goodput per GPU, requests/s": round(figures["goodput_rps"] / plan.num_gpus, 3),
        "TTFT p99, ms": milliseconds(figures["ttft_p99_s"]),
        "ITL p99, ms": milliseconds(figures["itl_p99_s"]),
        "meets the SLOs": figures["meets_slo"],
        "chance to meet": odds(figures),
    }


def milliseconds(seconds: float | None) -> float | None:
    """To a tenth; None for what does not exist."""
    return None if seconds is None else round(1e3 * seconds, 1)


def pool_table(plan: FleetPlan, use: dict[str, dict[str, Any]]) -> pd.DataFrame:
    """One row per pool of a fleet with its use (`FleetProblem.use`)."""
    rows = []
    for pool in plan.pools:
        known = use.get(pool.role)
        counts = [] if known is None else known["requests"]
        rows.append(
            {
                "pool": pool.role,
                "replicas": pool.replicas,
                "GPUs a replica": pool.tp,
                "load, %": None if known is None else round(100 * known["load"], 1),
                "fewest requests on a replica": min(counts, default=None),
                "most requests on a replica": max(counts, default=None),
                "busiest above the mean, %": _imbalance(counts),
                "preemptions": None if known is None else known["preemptions"],
            }
        )
    return pd.DataFrame(rows)


def _imbalance(counts: list[int]) -> float | None:
    """How far the replica with the most requests lies above the mean, per cent."""
    total = sum(counts)
    return round(100 * (max(counts) * len(counts) / total - 1), 1) if total else None


def trial_table(trials: pd.DataFrame) -> pd.DataFrame:
    """One row per trial (`fleet_frames.trial_fleets`), the best first."""
    ordered = trials.sort_values(["feasible", "per_gpu"], ascending=[False, False])
    plans = [plan_of(settings) for settings in ordered["settings"]]
    return pd.DataFrame(
        {
            "trial": ordered["number"],
            "fleet": [f"{MODES[p.mode]} {p.ratio}" for p in plans if p is not None],
            "kind": ordered["kind"],
            "GPUs": ordered["gpus"],
            "goodput per GPU, requests/s": ordered["per_gpu"].round(3),
            "TTFT p99, ms": (1e3 * ordered["ttft_p99_s"].astype(float)).round(1),
            "ITL p99, ms": (1e3 * ordered["itl_p99_s"].astype(float)).round(1),
            "meets the SLOs": ordered["feasible"],
            "router": ordered["router"],
            "decode router": ordered["decode_router"],
            "settings": [_settings(p) for p in plans if p is not None],
        }
    )


def effects_table(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per router rule of `router_effects`; why a refused one cannot be simulated."""
    return pd.DataFrame(
        {
            "for": row["part"],
            "rule": row["rule"] + (" (own)" if row["own"] else ""),
            "goodput per GPU, requests/s": row["per_gpu"] and round(row["per_gpu"], 3),
            "TTFT p99, ms": milliseconds(row["ttft_p99_s"]),
            "ITL p99, ms": milliseconds(row["itl_p99_s"]),
            "meets the SLOs": row["meets_slo"],
            "not simulated": row["refused"] or "",
        }
        for row in rows
    )
