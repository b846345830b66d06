"""What of a fleet can be exported: engines of one kind, each with the same files."""

from __future__ import annotations

from tuner.fleet_plan import AGGREGATED, PoolSetup
from tuner.results import Results


def exported_pool(results: Results) -> PoolSetup | None:
    """The one pool of the recommended fleet; None for a run of one engine, or of more pools."""
    plan = results.recommended.plan
    return plan.pools[0] if plan is not None and plan.mode == AGGREGATED else None


def not_exported(results: Results, target: str) -> str | None:
    """Why the recommendation cannot be exported, in one line; None when it can."""
    plan = results.recommended.plan
    if plan is None or plan.mode == AGGREGATED:
        return None
    return (
        f"export target {target} writes the files of one pool of alike replicas, and "
        f"{results.recommended.label} is {plan.mode} ({plan.ratio}); its settings per pool are in "
        "results.json"
    )
