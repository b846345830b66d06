"""The main job: traffic -> profile -> search -> confirm -> recommendation, in one run folder.

Every part is kept as soon as it is done, so that a killed run goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from profiler.collect import Profile, profile
from profiler.collect.silicon import is_predicted
from profiler.engine_config import EngineConfig
from profiler.engines import start_engine
from profiler.engines.base import Engine, EngineSpec
from profiler.engines.rehearsal import REHEARSAL
from profiler.engines.rehearsal.spec import LATENCY_MODEL
from profiler.errors import StudyError
from profiler.provenance import provenance_now
from profiler.traffic.trace import Trace
from tuner.candidate import Candidate, Evidence
from tuner.results import Results, RunFolder, Verdict
from tuner.schema import Study
from tuner.search.checked import checked_engine, unchecked_note
from tuner.search.confirm import Plan, confirm, engines
from tuner.search.objective import Problem, build_problem, require_room, slo_of
from tuner.search.optimize import First, SearchOptions, load_trials, search
from tuner.search.pareto import Trial, front, pick
from tuner.search.predicted import predict, predicted_candidates
from tuner.search.progress import Ui
from tuner.search.recommend import Recommendation, recommend, recommend_predicted
from tuner.search.rehearsed import confirming_spec, is_rehearsed
from tuner.study import build_trace
from tuner.whole_files import whole_folder, writing

StartEngine = Callable[[EngineSpec], Engine]


@dataclass(frozen=True)
class TuneOptions:
    """What the command line adds to the study; `first` is for the search, say an earlier front."""

    study_file: Path
    resume: bool = False
    fresh: bool = False
    start: StartEngine = start_engine
    """how engines are started"""
    first: First = ()


def tune(study: Study, folder: RunFolder, options: TuneOptions, ui: Ui) -> Results:
    """Run the study in `folder` and keep its results there.

    Raises `StallfreeError` subclasses; `KeyboardInterrupt` passes through. Either way what is
    finished stays in the folder for `resume`.
    """
    with folder.lock():
        folder.begin(
            options.study_file, fingerprint(study), resume=options.resume, fresh=options.fresh
        )
        trace = run_trace(study, folder, ui)
        slo_of(study, trace)  # an unknown class is found before minutes are spent
        require_room(trace, study.fixed.max_model_len)
        measured = run_profile(study, folder, trace, ui, options.start)
        problem = build_problem(study, trace, measured)
        trials = run_search(study, folder, problem, ui, options.first)
        parts = Parts(study, folder, problem, measured, trials)
        if is_predicted(measured.facts) and study.engine.name != REHEARSAL:
            return finish_predicted(parts, ui)
        return finish(parts, ui, options.start)


def confirm_again(
    study: Study,
    folder: RunFolder,
    ui: Ui,
    *,
    again: bool,
    start: StartEngine = start_engine,
) -> Results:
    """Confirm the finished search in `folder` anew; `again` repeats replays that are kept."""
    with folder.lock():
        trials = load_trials(folder.database)
        trace = Trace.load(folder.trace)
        measured = run_profile(study, folder, trace, ui, start)
        problem = build_problem(study, trace, measured)
        if again:
            folder.forget_replays()
        return finish(Parts(study, folder, problem, measured, trials), ui, start)


@dataclass(frozen=True)
class Parts:
    """What is there when the search has finished."""

    study: Study
    folder: RunFolder
    problem: Problem
    measured: Profile
    trials: list[Trial]


def finish(parts: Parts, ui: Ui, start: StartEngine) -> Results:
    """Confirm, decide, and keep the results."""
    candidates = run_confirm(parts, ui, start)
    results = build_results(parts, candidates, recommend(candidates))
    parts.folder.save_results(results)
    return results


def finish_predicted(parts: Parts, ui: Ui) -> Results:
    """Decide by prediction alone: nobody holds the device. `confirm_again` rehearses."""
    ui.stage(
        "the profile was made without an engine: predicted only; `stallfree confirm` rehearses"
    )
    candidates = predicted_candidates(parts.problem, parts.trials, parts.study.validate_.top)
    results = build_results(parts, candidates, recommend_predicted(candidates))
    parts.folder.save_results(results)
    return results


def fingerprint(study: Study) -> str:
    """Digest of what a run's parts depend on: traffic, engine, profile, SLOs, space, windows."""
    content = study.model_dump(mode="json", include={"traffic", "engine", "profile", "slo"})
    del content["engine"]["unchecked"]  # a refused run goes on with --unchecked-engine
    content["search"] = study.search.model_dump(mode="json", include={"space", "windows"})
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def run_trace(study: Study, folder: RunFolder, ui: Ui) -> Trace:
    """The study's traffic, from the run folder when it is already there."""
    if folder.trace.exists():
        return Trace.load(folder.trace)
    ui.stage("preparing the traffic")
    trace = build_trace(study)
    with writing(folder.trace):
        unfinished = folder.trace.with_name("unfinished.parquet")
        trace.save(unfinished)
        unfinished.replace(folder.trace)
    return trace


def run_profile(
    study: Study, folder: RunFolder, trace: Trace, ui: Ui, start: StartEngine
) -> Profile:
    """The profile: the study's finished one, the run folder's, or a new one on the real engine."""
    place = folder.profile if study.profile.path is None else Path(study.profile.path)
    if study.profile.path is None and not place.exists():
        save_profile(measure(study, trace, ui, start), place)
        return Profile.load(place)
    measured = Profile.load(place)
    if not folder.profile.exists():  # the folder is to hold all that its run rests on
        save_profile(measured, folder.profile)
    if note := unchecked_note(study, measured.facts):
        ui.stage(note)
    return measured


def measure(study: Study, trace: Trace, ui: Ui, start: StartEngine = start_engine) -> Profile:
    """Profile the study's engine at its default settings, or predict it without one."""
    if study.profile.silicon is not None:
        return predict(study, ui)
    if study.profile.budget_s is None:
        raise StudyError("profile.path names a finished profile; give --budget to measure one")
    spec = study.engine_spec(study.fixed)
    ui.stage(f"starting {spec.engine} to profile it")
    with start(spec) as engine, ui.progress("profile") as progress:
        if note := checked_engine(study, engine):
            ui.stage(note)
        return profile(
            engine,
            trace,
            budget_s=study.profile.budget_s,
            seed=study.search.seed,
            progress=progress,
        )


def save_profile(measured: Profile, place: Path) -> None:
    """Write the profile's folder, whole or not at all. Raises `ResultsError`."""
    with writing(place), whole_folder(place) as folder:
        measured.save(folder)


def run_search(
    study: Study, folder: RunFolder, problem: Problem, ui: Ui, first: First = ()
) -> list[Trial]:
    """Every finished trial, those of an earlier, interrupted run included."""
    options = SearchOptions(study.search.trials, study.search.workers, study.search.seed, first)
    ui.stage(f"searching {options.trials} configurations")
    with ui.progress("search") as progress:
        return search(problem, folder.database, options, progress)


def run_confirm(parts: Parts, ui: Ui, start: StartEngine) -> list[Candidate]:
    """The engine default and the best few, measured on the real engine."""
    study, problem = parts.study, parts.problem
    chosen = pick(parts.trials, study.validate_.top)
    configs = {"default": problem.fixed}
    for index, trial in enumerate(chosen, start=1):
        configs[f"candidate-{index}"] = EngineConfig.from_settings(trial.settings)
    plan = Plan(
        configs=configs,
        trace=problem.trace.slice(0.0, study.validate_.seconds),
        slo=problem.slo,
        model=parts.measured.model,
        reference_s=float(parts.measured.facts.get("sentinel_reference_s", math.nan)),
        rounds=study.validate_.rounds,
        seed=study.search.seed,
        windows=study.search.windows,
        acceptance=problem.acceptance,
    )
    ui.stage(f"confirming {len(chosen)} configurations and the engine default")

    def start_with(config: EngineConfig) -> Engine:
        engine = start(confirming_spec(study, parts.measured.facts, parts.folder, config))
        checked_engine(study, engine)
        return engine

    with engines(start_with, keep_alive=study.validate_.keep_alive) as alive:
        return confirm(plan, parts.folder, alive, ui)


def build_results(
    parts: Parts, candidates: list[Candidate], recommendation: Recommendation
) -> Results:
    """The outcome of the run as plain data."""
    study, problem, facts = parts.study, parts.problem, parts.measured.facts
    limits = zip(problem.slo.class_names, problem.slo.limits, strict=True)
    return Results(
        study=study.name,
        verdict=recommendation.verdict,
        meets_slo=not recommendation.misses,
        misses=recommendation.misses,
        default=candidates[0],
        recommended=recommendation.chosen,
        candidates=candidates,
        front=_points(parts.trials),
        slo={name: _given(asdict(limit)) for name, limit in limits},
        trials=len(parts.trials),
        infeasible_trials=sum(t.refused is not None for t in parts.trials),
        engine=_engine(study, facts),
        provenance={
            **provenance_now().to_dict(),
            "trace_digest": problem.trace.digest(),
            "trace_source": problem.trace.source,
            "seed": study.search.seed,
            "engine": {
                **{k: facts.get(k) for k in _ENGINE_FACTS},
                "unchecked": unchecked_note(study, facts),
            },
        },
        evidence=_evidence(recommendation, rehearsed=is_rehearsed(study, facts)),
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


def _points(trials: list[Trial]) -> list[dict[str, Any]]:
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


_SHOWN = ("ttft_p99_s", "itl_p99_s", "goodput_rps", "intervals", "chance")  # of a trial's metrics
