"""The main job for a fleet: kinds of replicas -> search -> the best few on all traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from profiler.collect import Profile
from profiler.kv_transfer import kv_shape_of
from profiler.traffic.trace import Trace
from tuner.candidate import Candidate
from tuner.fleet_plan import FleetPlan
from tuner.fleet_section import FleetSection
from tuner.results import Results, RunFolder
from tuner.schema import Study
from tuner.search.fleet_link import link_of
from tuner.search.fleet_problem import FleetProblem, Kind, shortened
from tuner.search.fleet_space import FleetSpace
from tuner.search.objective import REFUSED, Problem, build_problem, not_sampled
from tuner.search.outcome import Finished, build_results
from tuner.search.pareto import Trial, pick, rank, worth_of
from tuner.search.predicted import predict
from tuner.search.progress import Ui
from tuner.search.recommend import Recommendation, recommend_predicted
from tuner.search.stages import run_search, save_profile


def tune_fleet(study: Study, folder: RunFolder, trace: Trace, measured: Profile, ui: Ui) -> Results:
    """Search the study's fleets, score the best few on all traffic, and keep the results.

    The search simulates the busiest `fleet.requests` requests and no other window; the engine
    default, the best few and the best of each mode are then scored on everything.
    """
    section = study.fleet
    assert section is not None  # the caller looked
    problem = fleet_problem(study, folder, trace, measured, ui)
    short = shortened(problem, section.requests)
    cut, whole = short.trace.num_requests, trace.num_requests
    ui.stage(f"the search simulates the busiest {cut:,} of {whole:,} requests in a row")
    trials = run_search(study, folder, short, ui)
    scored = score_best(problem, trials, study.validate_.top, ui)
    run = Finished(
        study, trace, problem.slo, measured.facts, trials, described(section, problem, cut)
    )
    results = build_results(run, [s.candidate for s in scored], recommend_scored(scored))
    folder.save_results(results)
    return results


def fleet_problem(
    study: Study, folder: RunFolder, trace: Trace, measured: Profile, ui: Ui
) -> FleetProblem:
    """The study's fleets on `trace`; profiles of other kinds of replicas are made and kept.

    Raises `LinkError`, `SiliconError`, `StudyError`.
    """
    assert study.fleet is not None  # the caller looked
    silicon, space = study.profile.silicon, FleetSpace.of(study)
    kv = kv_shape_of(measured.facts["model_shape"])
    link = link_of(study.fleet.link, kv)  # a wrong name is found before minutes are spent
    own = ("", 1) if silicon is None else (silicon.system, silicon.tp)
    replicas: dict[Kind, Problem] = {}
    for kind in space.kinds():
        of_kind = study if kind == own else _study_of(study, kind)
        made = measured if kind == own else _profile_of(of_kind, folder, kind, ui)
        replicas[kind] = build_problem(of_kind, trace, made)
    one = next(iter(replicas.values()))
    return FleetProblem(
        trace, one.slo, space, replicas, own[1], link, kv, windows=study.search.windows
    )


def _study_of(study: Study, kind: Kind) -> Study:
    """`study` on another GPU or tensor-parallel size."""
    assert study.profile.silicon is not None  # checked: a measured profile has one kind
    silicon = study.profile.silicon.model_copy(update={"system": kind[0], "tp": kind[1]})
    profile = study.profile.model_copy(update={"silicon": silicon})
    return study.model_copy(update={"profile": profile})


def _profile_of(study: Study, folder: RunFolder, kind: Kind, ui: Ui) -> Profile:
    place = folder.replicas / f"{kind[0]}-tp{kind[1]}"
    if not place.exists():
        ui.stage(f"replicas of {kind[1]} x {kind[0]}")
        save_profile(predict(study, ui), place)
    return Profile.load(place)


@dataclass(frozen=True)
class Scored:
    """A candidate on all traffic, and its third objective."""

    candidate: Candidate
    worth: float


def recommend_scored(scored: Sequence[Scored]) -> Recommendation:
    """The best by prediction. Raises `SimulationError` when none could be predicted."""
    worths = [s.worth for s in scored if s.candidate.predicted is not None]
    return recommend_predicted([s.candidate for s in scored], worths)


def score_best(problem: FleetProblem, trials: list[Trial], top: int, ui: Ui) -> list[Scored]:
    """The default, the best `top` trials, and the best of each mode, on all traffic."""
    chosen = {"default": trials[0]}
    picked = {t.number: t for t in [*pick(trials, top), *_best_of_modes(trials)]}
    for index, trial in enumerate(picked.values(), start=1):
        chosen[f"candidate-{index}"] = trial
    ui.stage(f"scoring {len(chosen)} fleets on all traffic, {problem.windows} windows")
    scored = []
    with ui.progress("score") as progress:
        for index, (label, trial) in enumerate(chosen.items()):
            progress(index, len(chosen))
            scored.append(score_fleet(problem, label, FleetPlan.from_settings(trial.settings)))
        progress(len(chosen), len(chosen))
    return scored


def _best_of_modes(trials: list[Trial]) -> list[Trial]:
    """The best trial of each mode but the default, so that modes can be compared."""
    modes: dict[str, list[Trial]] = {}
    for trial in trials[1:]:
        if trial.metrics is not None and trial.settings != trials[0].settings:
            modes.setdefault(trial.settings["mode"], []).append(trial)
    return [
        group[rank([t.metrics for t in group if t.metrics], [worth_of(t) for t in group])[0]]
        for group in modes.values()
    ]


def score_fleet(problem: FleetProblem, label: str, plan: FleetPlan) -> Scored:
    """`plan` predicted on the traffic of `problem`."""
    resolved = {pool.role: problem.resolved(pool) for pool in plan.pools}
    candidate = Candidate(
        label=label,
        settings=plan.settings(),
        predicted=None,
        measured=None,
        corrected=None,
        replays=[],
        resolved={role: full.settings() for role, full in resolved.items()},
        not_sampled=[
            f"{pool.role}: {sentence}"
            for pool in plan.pools
            for sentence in not_sampled(
                problem.replica(pool.role, pool.tp).model, resolved[pool.role], problem.trace
            )
        ],
    )
    try:
        simulation = problem.simulate(plan)
        metrics = problem.score(simulation, plan)
    except REFUSED as error:
        return Scored(replace(candidate, failure=str(error)), 0.0)
    use = problem.use(plan, simulation)
    return Scored(
        replace(candidate, predicted=metrics.to_dict(), use=use), problem.worth(plan, metrics)
    )


def described(section: FleetSection, problem: FleetProblem, searched: int) -> dict[str, Any]:
    """`Results.fleet`."""
    return {
        "max_gpus": section.gpus.max,
        "fewest": section.gpus.fewest,
        "modes": list(section.modes),
        "link": {"name": section.link.name, **asdict(problem.link)},
        "kv_bytes_per_token": problem.kv.bytes_per_token,
        "replicas": [
            {"system": system, "tp": tp, "num_kv_blocks": one.num_kv_blocks}
            for (system, tp), one in problem.replicas.items()
        ],
        "searched_requests": searched,
        "requests": problem.trace.num_requests,
    }
