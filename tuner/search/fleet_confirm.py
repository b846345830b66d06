"""Confirming a fleet: what can be rehearsed of it, said and not pretended."""

from __future__ import annotations

from profiler.errors import StudyError
from tuner.fleet_plan import AGGREGATED
from tuner.results import Results


def confirm_fleet(results: Results) -> Results:
    """`results` with their candidates confirmed. Raises `StudyError`: no fleet is yet."""
    plan = results.recommended.plan
    assert plan is not None  # results of a fleet
    alone = "nothing of a split one is rehearsed"
    if plan.mode == AGGREGATED:
        alone = (
            "one of its replicas is rehearsed by a study without `fleet`, with traffic.share: "
            f"{1 / plan.pools[0].replicas:.4g}"
        )
    raise StudyError(
        f"confirm replays on one engine, and this run recommends {plan.words()}: it stays "
        f"predicted; {alone}"
    )
