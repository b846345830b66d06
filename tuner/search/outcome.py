"""From a finished search and its candidates to `Results`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from profiler.engines.rehearsal.spec import LATENCY_MODEL
from profiler.provenance import provenance_now
from profiler.traffic.trace import Trace
from tuner.candidate import Candidate, Evidence, Verdict
from tuner.results import Results
from tuner.schema import Study
from tuner.search.checked import unchecked_note
from tuner.search.pareto import Trial, front
from tuner.search.recommend import Recommendation
from tuner.search.rehearsed import is_rehearsed
from tuner.slo import Slo


@dataclass(frozen=True)
class Finished:
    """What is there when the search has finished."""

    study: Study
    trace: Trace
    slo: Slo
    facts: dict[str, Any]
    """of the profile; of a fleet, the study's own"""
    trials: list[Trial]
    fleet: dict[str, Any] | None = None
    """`Results.fleet`"""


def build_results(
    run: Finished, candidates: list[Candidate], recommendation: Recommendation
) -> Results:
    """The outcome of the run as plain data."""
    study, facts = run.study, run.facts
    limits = zip(run.slo.class_names, run.slo.limits, strict=True)
    return Results(
        study=study.name,
        verdict=recommendation.verdict,
        meets_slo=not recommendation.misses,
        misses=recommendation.misses,
        default=candidates[0],
        recommended=recommendation.chosen,
        candidates=candidates,
        front=points_of(run.trials),
        slo={name: _given(asdict(limit)) for name, limit in limits},
        trials=len(run.trials),
        infeasible_trials=sum(t.refused is not None for t in run.trials),
        engine=_engine(study, facts),
        provenance={
            **provenance_now().to_dict(),
            "trace_digest": run.trace.digest(),
            "trace_source": run.trace.source,
            "seed": study.search.seed,
            "engine": {
                **{k: facts.get(k) for k in _ENGINE_FACTS},
                "unchecked": unchecked_note(study, facts),
            },
        },
        evidence=_evidence(
            recommendation, rehearsed=run.fleet is not None or is_rehearsed(study, facts)
        ),
        fleet=run.fleet,
    )


def _evidence(recommendation: Recommendation, *, rehearsed: bool) -> Evidence:
    if recommendation.verdict is Verdict.PREDICTED:
        return Evidence.PREDICTED
    return Evidence.REHEARSED if rehearsed else Evidence.MEASURED


_ENGINE_FACTS = ("engine", "version", "device", "num_gpus", "model")


def _engine(study: Study, facts: dict[str, Any]) -> dict[str, Any]:
    """What to start the engine with; the parallelism that was predicted is a part of it."""
    exclude: dict[str, Any] = {"config": True, "args": {LATENCY_MODEL}}
    engine = study.engine.model_dump(mode="json", exclude=exclude)
    engine["args"] = facts.get("silicon", {}).get("engine_args", {}) | engine["args"]
    return engine


def _given(limits: dict[str, float]) -> dict[str, float]:
    return {name: limit for name, limit in limits.items() if limit == limit}


def points_of(trials: list[Trial]) -> list[dict[str, Any]]:
    """Every predicted trial as a point of the front's plot."""
    best = {t.number for t in front(trials)}
    return [
        {
            "number": t.number,
            "settings": t.settings,
            **{name: figures[name] for name in _SHOWN},
            "feasible": t.feasible,
            "on_front": t.number in best,
        }
        for t in trials
        if t.metrics is not None and (figures := t.metrics.to_dict())
    ]


_SHOWN = ("ttft_p99_s", "itl_p99_s", "goodput_rps", "intervals", "chance")
"""what the front keeps of a trial's metrics"""
