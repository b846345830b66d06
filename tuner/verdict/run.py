"""`stallfree verdict` as one function: the two searches, then the judgement, in a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from profiler.engines import start_engine
from profiler.errors import StudyError
from profiler.provenance import provenance_now
from tuner.fleet_plan import FleetPlan
from tuner.results import RunFolder, find_runs
from tuner.schema import Study
from tuner.search.database import load_trials
from tuner.search.fleet_problem import FleetProblem, shortened
from tuner.search.fleet_tune import fleet_problem
from tuner.search.objective import require_room, slo_of
from tuner.search.optimize import SearchOptions, search
from tuner.search.pareto import Trial, rank, worth_of
from tuner.search.progress import Ui
from tuner.search.stages import StartEngine, run_profile, run_trace
from tuner.search.tune import begin
from tuner.verdict.bench import Bench
from tuner.verdict.judge import JudgeSettings, judge
from tuner.verdict.options import SIDES, Option, Side
from tuner.verdict.report import judgement_dict


@dataclass(frozen=True)
class VerdictOptions:
    """What the command line adds to the study."""

    study_file: Path
    settings: JudgeSettings = field(default_factory=JudgeSettings)
    fresh: bool = False
    start: StartEngine = start_engine
    """how engines are started, where the profile is measured"""


def verdict(study: Study, folder: RunFolder, options: VerdictOptions, ui: Ui) -> dict[str, Any]:
    """Judge whether the study's fleet should be disaggregated, and keep that in `folder`.

    A finished run of the study in `folder` gives the candidates of both sides. Otherwise, or where
    that run has none of a side, each side is searched by itself, with `search.trials` each, so that
    both are tuned alike; an interrupted search goes on where it was.

    Returns
    -------
    `report.judgement_dict`, with study and provenance.

    Raises `StallfreeError` subclasses; `KeyboardInterrupt` passes through.
    """
    require_modes(study)
    with folder.lock():
        begin(study, folder, options.study_file, resume=True, fresh=options.fresh)
        trace = run_trace(study, folder, ui)
        slo_of(study, trace)  # an unknown class is found before minutes are spent
        require_room(trace, study.fixed.max_model_len)
        measured = run_profile(study, folder, trace, ui, options.start)
        problem = fleet_problem(study, folder, trace, measured, ui)
        ranked = tuned(folder)
        if ranked:
            ui.stage("the candidates are those of the finished run; nothing is searched")
        else:
            ranked = searched(study, folder, problem, ui)
        judgement = judge(ranked, bench_of(problem, study.search.seed), options.settings, ui)
        plain = {
            "study": study.name,
            **judgement_dict(judgement),
            "provenance": {
                **provenance_now().to_dict(),
                "trace_digest": trace.digest(),
                "trace_source": trace.source,
                "seed": study.search.seed,
            },
        }
        folder.save_verdict(plain)
        return plain


def require_modes(study: Study) -> None:
    """Raise `StudyError` unless the study's fleet may be of either side."""
    if study.fleet is None:
        raise StudyError(
            "a verdict is about a fleet, and the study has none; add fleet: {gpus: 16} with your "
            "own number of GPUs"
        )
    if study.fleet.gpus.fewest:
        raise StudyError(
            "a verdict compares both sides at equal GPUs, and fleet.gpus asks for the fewest; give "
            f"the number alone, such as fleet: {{gpus: {study.fleet.gpus.max}}}"
        )
    for side in SIDES:
        if not modes_of(study, side):
            raise StudyError(
                f"fleet.modes is {', '.join(study.fleet.modes)}, and a verdict needs both sides; "
                f"add {side.value}"
            )


def modes_of(study: Study, side: Side) -> tuple[str, ...]:
    """The study's modes that belong to a side; a mixed fleet is disaggregated."""
    assert study.fleet is not None  # checked by `require_modes`
    ours = {mode: mode == Side.AGGREGATED for mode in study.fleet.modes}
    return tuple(mode for mode, one in ours.items() if one == (side is Side.AGGREGATED))


def tuned(folder: RunFolder) -> list[Option]:
    """The candidates of a finished run, of each side the best first; none unless it has both."""
    if find_runs(folder.path) != [folder.path]:
        return []
    found = options_of(load_trials(folder.database))
    return found if {option.side for option in found} == set(SIDES) else []


def searched(study: Study, folder: RunFolder, problem: FleetProblem, ui: Ui) -> list[Option]:
    """The same from a search of each side, kept in databases of their own."""
    assert study.fleet is not None  # checked by `require_modes`
    short = shortened(problem, study.fleet.requests)
    options = SearchOptions(study.search.trials, study.search.workers, study.search.seed)
    found = []
    for side in SIDES:
        one = replace(short, space=replace(short.space, modes=modes_of(study, side)))
        with ui.progress(f"search, {side.value}") as progress:
            found += options_of(search(one, folder.side_database(side.value), options, progress))
    return found


def options_of(trials: Sequence[Trial]) -> list[Option]:
    """What could be predicted, as options; of each side the best first (`pareto.rank`)."""
    options = []
    for side in SIDES:
        of_side = [
            (trial, option)
            for trial in trials
            if trial.metrics is not None
            and (option := Option("", FleetPlan.from_settings(trial.settings))).side is side
        ]
        metrics = [trial.metrics for trial, _ in of_side if trial.metrics is not None]
        order = rank(metrics, [worth_of(trial) for trial, _ in of_side])
        options += [
            replace(of_side[i][1], name=f"{side.value}-{place}")
            for place, i in enumerate(order, start=1)
        ]
    return options


def bench_of(problem: FleetProblem, seed: int) -> Bench:
    """A bench on the problem's traffic."""
    lengths = [one.resolved.max_model_len for one in problem.replicas.values()]
    shortest = min((length for length in lengths if length is not None), default=None)
    return Bench((problem.trace,), problem.slo, problem.fleet, shortest, seed=seed)
