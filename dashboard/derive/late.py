"""The latest first tokens of a fleet, with what is known of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dashboard.derive.points import problem_of
from dashboard.derive.why import APART, worst
from profiler.engines.base import Progress
from tuner.fleet_plan import plan_of
from tuner.metrics import without_nan
from tuner.search.fleet_problem import FleetProblem
from tuner.search.objective import REFUSED
from tuner.simulator.fleet import FleetSimulation


def late_requests(folder: Path, settings: dict[str, Any], *, progress: Progress) -> dict[str, Any]:
    """The requests with the latest first tokens, at different times.

    Returns
    -------
    {"refused": why} or `requests`: each with `request` (its number), `arrival_s`, `seconds` (TTFT),
    `prompt_tokens`, `output_tokens`, `replica`, and of one that was prefilled elsewhere
    `decode_replica`, `prefill_s`, `wait_s` and `load_s`: until the prefill was done, from then to
    the start of the KV transfer, the transfer; None for none.
    """
    progress(0, 1)
    problem, plan = problem_of(folder), plan_of(settings)
    assert isinstance(problem, FleetProblem) and plan is not None  # pages ask for fleets alone
    try:
        done = problem.simulate(plan)
    except REFUSED as error:
        return {"refused": str(error)}
    outcomes = done.outcomes
    ttft = outcomes.first_token_s - outcomes.arrival_s
    apart_s = max(1.0, problem.trace.duration_s / APART)
    chosen = worst(np.nan_to_num(ttft, nan=0.0), outcomes.arrival_s, apart_s)
    return {"requests": [_late(done, i, float(ttft[i])) for i in chosen]}


def _late(done: FleetSimulation, i: int, ttft_s: float) -> dict[str, Any]:
    outcomes = done.outcomes
    prefilled, start, end = (
        float(t[i]) for t in (done.prefill_s, done.load_start_s, done.load_end_s)
    )
    spans = {
        "prefill_s": prefilled - float(outcomes.arrival_s[i]),
        "wait_s": start - prefilled,
        "load_s": end - start,
    }
    return {
        "request": i + 1,
        "arrival_s": float(outcomes.arrival_s[i]),
        "seconds": ttft_s,
        "prompt_tokens": int(outcomes.prompt_tokens[i]),
        "output_tokens": int(outcomes.output_tokens[i]),
        "replica": _number(done.replica[i]),
        "decode_replica": _number(done.decode_replica[i]),
        **without_nan(spans),
    }


def _number(value: float) -> int | None:
    """Replicas are numbered from 1 for people."""
    return int(value) + 1 if np.isfinite(value) else None
