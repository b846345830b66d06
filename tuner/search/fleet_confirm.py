"""Confirming fleets: those that two cores can carry are rehearsed, what cannot be is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from profiler.engines import start_engine
from profiler.engines.deployment.deployment import Deployment
from profiler.errors import StudyError
from profiler.traffic.trace import Trace
from tuner.candidate import Candidate
from tuner.fleet_plan import AGGREGATED, MOST_REHEARSED, ROLES, FleetPlan
from tuner.metrics import Metrics
from tuner.results import Results, RunFolder
from tuner.schema import Study
from tuner.search.database import load_trials
from tuner.search.fleet_problem import FleetProblem
from tuner.search.fleet_replay import require_rehearsable
from tuner.search.fleet_rounds import Deploy, FleetRounds
from tuner.search.fleet_tune import (
    Scored,
    described,
    fleet_problem,
    recommend_scored,
    score_best,
    score_fleet,
)
from tuner.search.objective import REFUSED
from tuner.search.outcome import Finished, build_results
from tuner.search.progress import Ui
from tuner.search.recommend import recommend
from tuner.search.rehearsed import rehearsed_model
from tuner.search.stages import run_profile


def confirm_fleet(
    study: Study, folder: RunFolder, ui: Ui, *, again: bool, deploy: Deploy = Deployment
) -> Results:
    """Rehearse the engine default, the fleet that prediction recommends and the best of each other
    mode on the first `validate.seconds` of the traffic, decide, and keep the results.

    All figures are then of that traffic; what was not rehearsed stays predicted. Replays that
    `folder` holds are not repeated, but for `again`. Raises `StudyError` when the default or the
    recommended fleet cannot be rehearsed, and as `fleet_rounds.FleetRounds.run`; a default without
    a replay ends the run (`EngineStartError`, `EvidenceError`).
    """
    section = study.fleet
    assert section is not None  # the caller looked
    trials, trace = load_trials(folder.database), Trace.load(folder.trace)
    measured = run_profile(study, folder, trace, ui, start_engine)
    problem = fleet_problem(study, folder, trace, measured, ui)
    scored = score_best(problem, trials, study.validate_.top, ui)
    plans, failures = choose(study, problem, scored)
    replayed = replace(problem, trace=trace.slice(0.0, study.validate_.seconds))
    rounds = FleetRounds(study, replayed, plans, rehearsed_model(study, measured.facts, folder))
    if again:
        folder.forget("confirm")
    ui.stage(
        f"rehearsing {len(plans)} fleets, {rounds.rounds.count} rounds of "
        f"{replayed.trace.num_requests:,} requests"
    )
    refused = rounds.run(folder, ui, deploy)
    failures |= {label: str(error) for label, error in refused.items()}
    candidates = [_confirmed(rounds, s.candidate, failures, folder) for s in scored]
    if candidates[0].measured is None:
        raise refused[candidates[0].label]

    def worth(candidate: Candidate, metrics: Metrics) -> float:
        return problem.worth(_plan(candidate), metrics)

    cut = min(section.requests, trace.num_requests)
    fleet = described(section, problem, cut) | {
        "rehearsed": {"requests": replayed.trace.num_requests, "rounds": rounds.rounds.count}
    }
    run = Finished(study, trace, problem.slo, measured.facts, trials, fleet)
    results = build_results(run, candidates, recommend(candidates, worth))
    folder.save_results(results)
    return results


def _confirmed(
    rounds: FleetRounds, known: Candidate, failures: Mapping[str, str], folder: RunFolder
) -> Candidate:
    """`known` on the replayed traffic: predicted, and rehearsed where there are replays."""
    found = score_fleet(rounds.problem, known.label, _plan(known)).candidate
    found = replace(found, failure=failures.get(known.label, found.failure))
    return rounds.candidate(found, folder) if known.label in rounds.plans else found


def choose(
    study: Study, problem: FleetProblem, scored: Sequence[Scored]
) -> tuple[dict[str, FleetPlan], dict[str, str]]:
    """What to rehearse, by label, the default first; and why the best of a mode is left out.

    Raises `StudyError` when the default or the recommended fleet cannot be rehearsed.
    """
    best = recommend_scored(scored).chosen
    chosen = {c.label: _plan(c) for c in (scored[0].candidate, best)}
    failures = {}
    for label, plan in chosen.items():
        if why := _refusal(problem, plan):
            raise StudyError(
                f"{label}, {plan.words()}, cannot be rehearsed: {why}{_way_out(study, best)}"
            )
    for mode in ROLES:
        of_mode = [s for s in scored if s.candidate.predicted and _plan(s.candidate).mode == mode]
        if mode == _plan(best).mode or not of_mode:
            continue
        other = recommend_scored(of_mode).chosen
        if why := _refusal(problem, _plan(other)):
            failures[other.label] = why
        else:
            chosen[other.label] = _plan(other)
    return chosen, failures


def _refusal(problem: FleetProblem, plan: FleetPlan) -> str | None:
    """Why `plan` cannot be rehearsed."""
    if plan.num_replicas > MOST_REHEARSED:
        return (
            f"it has {plan.num_replicas} replicas, and at most {MOST_REHEARSED} real engines are "
            "run together"
        )
    try:
        require_rehearsable(problem.fleet(plan))
    except REFUSED as error:
        return str(error)
    return None


def _way_out(study: Study, best: Candidate) -> str:
    """What can be rehearsed instead of a run that recommends `best`."""
    assert study.fleet is not None  # the caller looked
    plan, section, silicon = _plan(best), study.fleet, study.profile.silicon
    roles = {role for mode in section.modes for role in ROLES[mode]}
    gpus = MOST_REHEARSED * min(section.sizes(role, silicon)[0] for role in roles)
    if section.gpus.max <= gpus:
        return ""
    share = study.traffic.share * min(1.0, gpus / plan.num_gpus)
    words = f"; what can be: a study with fleet.gpus: {gpus} and traffic.share: {share:.4g}"
    if plan.mode == AGGREGATED:
        share = study.traffic.share / plan.num_replicas
        words += f", or one replica: a study without `fleet` and with traffic.share: {share:.4g}"
    return words


def _plan(candidate: Candidate) -> FleetPlan:
    assert candidate.plan is not None  # candidates of a fleet
    return candidate.plan
