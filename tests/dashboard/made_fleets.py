"""Results of a search of fleets, made by hand, and a verdict with every part."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from tests.tuner.conftest import candidate, finished_by_hand
from tuner.candidate import Evidence, Verdict
from tuner.fleet_plan import AGGREGATED, DECODE, PREFILL, FleetPlan, PoolSetup
from tuner.results import Results


def aggregated(replicas: int = 4, **settings: Any) -> dict[str, Any]:
    """Settings of a fleet of equal replicas."""
    return FleetPlan(
        (PoolSetup(AGGREGATED, replicas, settings=settings),), "round-robin"
    ).settings()


def split(prefill: int, decode: int, **settings: Any) -> dict[str, Any]:
    """Settings of a fleet with two pools."""
    pools = (
        PoolSetup(PREFILL, prefill, settings=settings),
        PoolSetup(DECODE, decode, settings=settings),
    )
    return FleetPlan(pools, "round-robin", "least-requests").settings()


def _point(number: int, settings: dict[str, Any], rate: float, met: bool) -> dict[str, Any]:
    return {
        "number": number,
        "settings": settings,
        "ttft_p99_s": 0.1 * (number + 1) if number != 4 else None,
        "itl_p99_s": 0.02,
        "goodput_rps": rate,
        "intervals": {},
        "chance": {},
        "feasible": met,
        "on_front": number in (1, 3),
    }


def fleet_results() -> Results:
    """Four GPUs: the default, an aggregated fleet that is recommended, and splits; one of the
    candidates could not be simulated."""
    fleets = (
        aggregated(),
        aggregated(max_num_batched_tokens=512),
        split(1, 3, max_num_batched_tokens=128),
        split(1, 3),
        split(2, 2),
    )
    known = [
        candidate(label, settings, step_s)
        for label, settings, step_s in (
            ("default", fleets[0], 0.2),
            ("candidate-1", fleets[1], 0.02),
            ("candidate-2", fleets[3], 0.05),
            ("candidate-3", fleets[4], 0.05),
        )
    ]
    known = [replace(c, measured=None, corrected=None, replays=[]) for c in known]
    known[3] = replace(known[3], predicted=None, failure="no room")
    rates = (2.0, 8.0, 6.0, 4.0, 1.0)
    met = (False, True, False, True, False)
    fleet = {
        "max_gpus": 4,
        "fewest": False,
        "modes": ["aggregated", "disaggregated"],
        "link": {"name": "ib-ndr", "bytes_per_s": 48e9, "latency_s": 1e-4},
        "searched_requests": 100,
        "requests": 200,
    }
    points = [_point(i, *row) for i, row in enumerate(zip(fleets, rates, met, strict=True))]
    return replace(
        finished_by_hand(),
        verdict=Verdict.PREDICTED,
        evidence=Evidence.PREDICTED,
        default=known[0],
        recommended=known[1],
        candidates=known,
        front=points,
        fleet=fleet,
    )


@cache
def verdict() -> dict[str, Any]:
    """What `stallfree verdict` keeps, of a formula in place of simulations."""
    from tests.tuner.verdict.made_verdict import judged
    from tuner.verdict.report import judgement_dict

    return judgement_dict(judged())
