"""One fleet under every router rule, all else equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from dashboard.derive.points import fleet_of
from profiler.engines.base import Progress
from tuner.fleet_plan import FleetPlan
from tuner.search.fleet_problem import FleetProblem
from tuner.search.objective import REFUSED
from tuner.simulator.router import RULES

FIRST, DECODE = "first", "decode"
FIGURES = ("goodput_rps", "ttft_p99_s", "itl_p99_s")
DECODE_RULES = list(RULES)[:4]
"""those that can choose a decode replica (`Router.decode_rule`)"""


def router_effects(folder: Path, settings: dict[str, Any], *, progress: Progress) -> dict[str, Any]:
    """Simulate the fleet with `settings` under each first rule, then under each decode rule.

    Requests, seeds and arrival windows are the same under every rule (common random numbers).

    Returns
    -------
    `rows`: `part` (first or decode), `rule`, `own` (whether the plan has it), `refused` (why it
    cannot be simulated, or None), `FIGURES`, `per_gpu`, `meets_slo`, `intervals` of `FIGURES`.
    """
    problem, plan = fleet_of(folder), FleetPlan.from_settings(settings)
    variants = list(variants_of(plan))
    rows: list[dict[str, Any]] = []
    known: dict[FleetPlan, dict[str, Any]] = {}  # the plan itself is in both parts
    for number, (part, rule, variant) in enumerate(variants):
        progress(number, len(variants))
        key = replace(variant, pools=())
        if key not in known:
            known[key] = _figures(problem, variant)
        rows.append({"part": part, "rule": rule, "own": variant == plan} | known[key])
    return {"rows": rows}


def variants_of(plan: FleetPlan) -> Iterator[tuple[str, str, FleetPlan]]:
    """(part, rule, fleet) for each rule: the first replica's, then the decode replica's."""
    for rule in RULES:
        yield FIRST, rule, replace(plan, router=rule)
    if plan.decode_router is not None:
        for rule in DECODE_RULES:
            yield DECODE, rule, replace(plan, decode_router=rule)


def _figures(problem: FleetProblem, plan: FleetPlan) -> dict[str, Any]:
    blank: dict[str, Any] = {"refused": None, "per_gpu": None, "meets_slo": None, "intervals": {}}
    try:
        plain = problem.evaluate(plan).to_dict()
    except REFUSED as error:
        return blank | dict.fromkeys(FIGURES) | {"refused": str(error)}
    intervals = {name: plain["intervals"][name] for name in FIGURES if name in plain["intervals"]}
    return blank | {
        **{name: plain[name] for name in FIGURES},
        "per_gpu": plain["goodput_rps"] / plan.num_gpus,
        "meets_slo": plain["meets_slo"],
        "intervals": intervals,
    }
