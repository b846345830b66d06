"""Fleets of a run as frames. Pure: nothing here knows Streamlit or files."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tuner.fleet_plan import AGGREGATED, DECODE, PREFILL, FleetPlan, plan_of
from tuner.results import Results

MODES = {"aggregated": "aggregated", "disaggregated": "split", "mixed": "mixed"}
"""mode -> short word"""


def trial_fleets(results: Results) -> pd.DataFrame:
    """One row per trial: mode, replicas and GPUs per replica by role (0 without such a pool), GPUs,
    `per_gpu` (predicted goodput per GPU, requests/s), the p99s in seconds, feasible, rules, and
    whether it is what the run recommends or the engine default."""
    rows = []
    for point in results.front:
        plan = plan_of(point["settings"])
        if plan is not None:
            rows.append(_row(point, plan, results))
    return pd.DataFrame(rows, columns=_COLUMNS)


_COLUMNS = [
    "number",
    "mode",
    "kind",
    *(f"{role}{what}" for role in (AGGREGATED, PREFILL, DECODE) for what in ("", "_tp")),
    "gpus",
    "per_gpu",
    "ttft_p99_s",
    "itl_p99_s",
    "feasible",
    "router",
    "decode_router",
    "recommended",
    "default",
    "settings",
]


def _row(point: dict[str, Any], plan: FleetPlan, results: Results) -> dict[str, Any]:
    pools = {role: plan.pool(role) for role in (AGGREGATED, PREFILL, DECODE)}
    sizes = {role: 0 if pool is None else pool.replicas for role, pool in pools.items()}
    tps = {f"{role}_tp": 0 if pool is None else pool.tp for role, pool in pools.items()}
    return {
        **{name: point[name] for name in ("number", "ttft_p99_s", "itl_p99_s", "feasible")},
        "mode": plan.mode,
        "kind": kind_of(plan),
        **sizes,
        **tps,
        "gpus": plan.num_gpus,
        "per_gpu": point["goodput_rps"] / plan.num_gpus,
        "router": plan.router,
        "decode_router": plan.decode_router or "",
        "recommended": point["settings"] == results.recommended.settings,
        "default": point["settings"] == results.default.settings,
        "settings": point["settings"],
    }


def kind_of(plan: FleetPlan) -> str:
    """What is compared: aggregated 16 x 1 GPU, split on 1:2 GPUs a replica, mixed on ..."""
    tp = ":".join(str(pool.tp) for pool in plan.pools)
    if plan.mode == AGGREGATED:
        return f"aggregated {plan.num_replicas} x {tp} GPU"
    return f"{MODES[plan.mode]}, {tp} GPU a replica"


def best_of(trials: pd.DataFrame, by: list[str], *, fewest: bool) -> pd.DataFrame:
    """The best trial of each group: one that meets the SLOs before one that does not, then the
    most goodput per GPU (where the search is for the fewest GPUs, the fewest first)."""
    worth = ["feasible", "per_gpu", "number"]
    ascending = [False, False, True]
    if fewest:
        worth, ascending = ["feasible", "gpus", *worth[1:]], [False, True, *ascending[1:]]
    ordered = trials.sort_values(worth, ascending=ascending)
    return ordered.groupby(by, sort=True, as_index=False).head(1)


def best_kinds(trials: pd.DataFrame, *, fewest: bool) -> pd.DataFrame:
    """The best trial of each kind of fleet, and the engine default as one of its own."""
    others = best_of(trials[~trials["default"]], ["kind"], fewest=fewest)
    return pd.concat([others, trials[trials["default"]].head(1)])


def only_limits(results: Results) -> dict[str, float]:
    """The limits, seconds, where all requests are of one class: figures over several have none."""
    return next(iter(results.slo.values())) if len(results.slo) == 1 else {}


def rule_quantiles(trials: pd.DataFrame) -> pd.DataFrame:
    """One row per pair of router rules and figure: number of trials, how many of them meet the
    SLOs, and the 5, 25, 50, 75 and 95 % quantiles (`q5` ...); trials without the figure are left
    out. Figures: per_gpu, ttft_p99_s, itl_p99_s."""
    rules = trials["router"].str.cat(trials["decode_router"], sep=" / ").str.removesuffix(" / ")
    labels = trials["mode"].map(MODES) + ": " + rules
    rows = []
    for label, group in trials.groupby(labels):
        for figure in ("per_gpu", "ttft_p99_s", "itl_p99_s"):
            values = group[figure].astype(float).dropna()
            if values.empty:
                continue
            quantiles = values.quantile([0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
            rows.append(
                {
                    "rules": label,
                    "figure": figure,
                    "trials": len(values),
                    "meet": int(group["feasible"].sum()),
                    **dict(zip(("q5", "q25", "q50", "q75", "q95"), quantiles, strict=True)),
                }
            )
    return pd.DataFrame(rows)
