"""From a finished run to what is to be deployed: which configuration, and as which pools."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from profiler.engine_config import EngineConfig
from profiler.errors import StudyError
from tuner.candidate import Candidate, Evidence
from tuner.export.deployment import (
    TENSOR_PARALLEL,
    UNKNOWN,
    Deployment,
    EnginePool,
    KvTransfer,
    Role,
)
from tuner.fleet_plan import FleetPlan, PoolSetup, plan_of
from tuner.knee import knee
from tuner.metrics import or_inf
from tuner.results import Results
from tuner.simulator.router import ROUND_ROBIN, Router

RECOMMENDED, KNEE, BEST = "recommended", "knee", "best"
_SERVER_ARGUMENTS = ("load_format", "dtype")
_PARALLEL = (TENSOR_PARALLEL, "pipeline-parallel-size", "data-parallel-size")
_NAME_LENGTH = 40


@dataclass(frozen=True)
class Pick:
    """One configuration of a run, and what is known of it."""

    candidate: Candidate
    evidence: Evidence
    """of this configuration; most of a search's were only predicted"""
    meets_slo: bool
    misses: dict[str, float]
    """relative violation of each SLO; only those that are violated"""

    @property
    def figures(self) -> dict[str, Any] | None:
        """As good as they get: confirmed ones where there are any, else predicted ones."""
        return self.candidate.measured or self.candidate.predicted


def picked(results: Results, pick: str = RECOMMENDED) -> Pick:
    """The configuration called `pick`.

    Parameters
    ----------
    pick
        recommended (what the run recommends), best (highest predicted goodput on the front; of
        fleets per GPU, or the fewest GPUs), knee (nearest to the front's ideal point) or the number
        of a trial.

    Raises
    ------
    StudyError
        There is no such trial, or nothing to choose from.
    """
    if pick == RECOMMENDED:
        evidence = _evidence(results, results.recommended)
        return Pick(results.recommended, evidence, results.meets_slo, results.misses)
    point = _point(results, pick)
    candidate = _candidate(results, point)
    evidence = _evidence(results, candidate)
    figures = candidate.measured or candidate.predicted or {}
    meets = bool(figures.get("meets_slo", point["feasible"]))
    violations = figures.get("violations", {})
    misses = {name: or_inf(v) for name, v in violations.items() if or_inf(v) > 0}
    return Pick(candidate, evidence, meets, misses)


def _evidence(results: Results, candidate: Candidate) -> Evidence:
    return Evidence.PREDICTED if candidate.measured is None else results.evidence


def _point(results: Results, pick: str) -> dict[str, Any]:
    points = results.front
    if pick in (KNEE, BEST):
        points = [p for p in points if p["on_front"]]
    elif pick.isdecimal():
        points = [p for p in points if p["number"] == int(pick)]
    else:
        raise StudyError(
            f"--pick must be {RECOMMENDED}, {KNEE}, {BEST} or the number of a trial, got {pick!r}"
        )
    if not points:
        known = [p["number"] for p in results.front]
        raise StudyError(
            f"the run has no trial to pick as {pick}; it has {len(known)}, "
            + (f"numbers {min(known)} to {max(known)}" if known else "run `stallfree tune` first")
        )
    if pick == BEST:
        return max(points, key=lambda p: (_worth(results, p), float(p["goodput_rps"])))
    # kept as None are a TTFT without end and the ITL of answers of one token
    points = [p for p in points if p["ttft_p99_s"] is not None] or points
    costs = [[p["ttft_p99_s"], p["itl_p99_s"] or 0.0, -_worth(results, p)] for p in points]
    return points[knee(np.array(costs, dtype=np.float64))]


def _worth(results: Results, point: dict[str, Any]) -> float:
    """What the search raised beside the latencies; see `FleetProblem.worth`."""
    plan = plan_of(point["settings"])
    if plan is None:
        return float(point["goodput_rps"])
    fewest = (results.fleet or {}).get("fewest", False)
    return (1.0 if fewest else float(point["goodput_rps"])) / plan.num_gpus


def _candidate(results: Results, point: dict[str, Any]) -> Candidate:
    """The confirmed candidate with the point's settings, or one that was only predicted."""
    for candidate in (results.recommended, *results.candidates):
        if candidate.settings == point["settings"]:
            return candidate
    predicted = {k: v for k, v in point.items() if k not in ("number", "settings", "on_front")}
    return Candidate(
        label=f"trial-{point['number']}",
        settings=point["settings"],
        predicted=predicted | {"meets_slo": point["feasible"]},
        measured=None,
        corrected=None,
        replays=[],
        resolved={} if "pools" in point["settings"] else point["settings"],
    )


def deployment_of(results: Results, pick: str = RECOMMENDED) -> Deployment:
    """The configuration called `pick` as a deployment. Raises `StudyError`, see `picked`."""
    chosen = picked(results, pick)
    return Deployment(
        name=object_name(results.study),
        model=str(results.engine["model"]),
        engine_version=_version(results),
        pools=_pools(results, chosen.candidate),
        router=_router(chosen.candidate.plan),
        evidence=_comment(results, chosen),
        left_out=_left_out(results, chosen.candidate.plan),
    )


def _left_out(results: Results, plan: FleetPlan | None) -> tuple[tuple[str, Any, str], ...]:
    """Settings of the study's engine that are of this machine, and of its fleet that no target's
    files hold."""
    left: list[tuple[str, Any, str]] = []
    device = results.engine.get("device", "auto")
    if device != "auto":
        left.append(("device", device, "the image and the machine decide it"))
    for pool in () if plan is None else plan.pools:
        if pool.system:
            why = "the files name no kind of GPU; place these replicas on such machines"
            left.append((f"{pool.role} system", pool.system, why))
    layers = ((results.fleet or {}).get("link") or {}).get("overlap_layers", 1)
    if plan is not None and plan.decode_router is not None and layers > 1:
        why = "predicted layer by layer; vLLM's NIXL connector sends KV after the prefill"
        left.append(("link overlap_layers", layers, why))
    return tuple(left)


def _version(results: Results) -> str:
    """The vLLM's; that of the fake engine says nothing of one."""
    facts = results.provenance.get("engine") or {}
    if facts.get("engine") == "fake":
        return UNKNOWN
    return str(facts.get("version") or UNKNOWN)


def object_name(study: str) -> str:
    """`study` as a name of Kubernetes objects with room for a suffix."""
    plain = re.sub(r"[^a-z0-9]+", "-", study.lower()).strip("-")[:_NAME_LENGTH].strip("-")
    return plain if plain[:1].isalpha() else f"stallfree-{plain}".strip("-")


def _pools(results: Results, candidate: Candidate) -> tuple[EnginePool, ...]:
    """Those of the fleet's plan, else one aggregated replica."""
    plan = candidate.plan
    environment = dict(results.engine.get("environment", {}))
    if plan is not None:
        return tuple(_planned_pool(results, setup, environment) for setup in plan.pools)
    flags = server_flags(results, candidate.settings)
    pool = EnginePool(
        label=Role.AGGREGATED,
        replicas=1,
        num_gpus=_num_gpus(results, flags),
        flags=flags,
        environment=environment,
    )
    return (pool,)


def _planned_pool(results: Results, setup: PoolSetup, environment: dict[str, str]) -> EnginePool:
    flags = server_flags(results, setup.settings)
    chosen = setup.tp > 1 or bool(setup.system)
    if chosen:  # else the profile was measured, and the engine is as it was started then
        flags.pop(TENSOR_PARALLEL, None)
        flags |= {TENSOR_PARALLEL: setup.tp} if setup.tp > 1 else {}
    role = Role(setup.role)
    return EnginePool(
        label=role,
        role=role,
        replicas=setup.replicas,
        num_gpus=setup.tp if chosen else _num_gpus(results, flags),
        flags=flags,
        environment=environment,
        kv_transfer=None if role is Role.AGGREGATED else KvTransfer(),
    )


def _router(plan: FleetPlan | None) -> Router:
    """The plan's rules; in turn where there is nothing to choose."""
    if plan is None:
        return Router()
    return Router(rule=plan.router, decode_rule=plan.decode_router or ROUND_ROBIN)


def _num_gpus(results: Results, flags: dict[str, Any]) -> int:
    """GPUs of one replica: as the profile knows them, else by the parallel sizes."""
    facts = results.provenance.get("engine") or {}
    if facts.get("num_gpus") is not None:
        return int(facts["num_gpus"])
    if str(facts.get("device", "")).lower().startswith("cpu"):
        return 0
    return int(np.prod([int(flags.get(name, 1)) for name in _PARALLEL]))


def server_flags(results: Results, settings: dict[str, Any]) -> dict[str, Any]:
    """Flag name without dashes in front -> value, in a fixed order; the model is not one."""
    engine = results.engine
    named = {k: engine[k] for k in _SERVER_ARGUMENTS if engine.get(k, "auto") != "auto"}
    named |= engine.get("args", {})
    named |= EngineConfig.from_settings(settings).arguments()
    return {name.replace("_", "-"): v for name, v in named.items() if v is not None}


def _comment(results: Results, chosen: Pick) -> tuple[str, ...]:
    met = f"meets its SLOs, {chosen.evidence}" if chosen.meets_slo else "DOES NOT MEET its SLOs"
    if chosen.evidence is Evidence.PREDICTED:
        met = f"WAS NOT MEASURED; it would {'' if chosen.meets_slo else 'not '}meet its SLOs"
    digest = str(results.provenance.get("trace_digest", ""))[:12]
    plan = chosen.candidate.plan
    return (
        f"Stallfree, study {results.study}: the {chosen.candidate.label} configuration {met}.",
        *([] if plan is None else [f"Fleet: {plan.words()}."]),
        f"Figures: {chosen.evidence.note}.",
        f"Traffic {digest}; see evidence.json beside this file.",
    )
