"""The main job: traffic -> profile -> search -> confirm -> recommendation, in one run folder.

Every part is kept as soon as it is done, so that a killed run goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from profiler.collect import Profile
from profiler.collect.silicon import is_predicted
from profiler.engine_config import EngineConfig
from profiler.engines import start_engine
from profiler.engines.base import Engine
from profiler.engines.rehearsal import REHEARSAL
from profiler.traffic.trace import Trace
from tuner.candidate import Candidate
from tuner.results import Results, RunFolder
from tuner.schema import Study
from tuner.search.checked import checked_engine
from tuner.search.confirm import Plan, confirm
from tuner.search.database import load_trials, require_trials
from tuner.search.fleet_tune import tune_fleet
from tuner.search.objective import Problem, build_problem, require_room, slo_of
from tuner.search.outcome import Finished, build_results
from tuner.search.pareto import Trial, pick
from tuner.search.predicted import predicted_candidates
from tuner.search.progress import Ui
from tuner.search.recommend import Recommendation, recommend, recommend_predicted
from tuner.search.rehearsed import confirming_spec
from tuner.search.rounds import engines
from tuner.search.run_state import recorded
from tuner.search.stages import StartEngine, run_profile, run_search, run_trace
from tuner.study import parse_study, placed, text_of


@dataclass(frozen=True)
class TuneOptions:
    """What the command line adds to the study."""

    study_file: Path
    resume: bool = False
    fresh: bool = False
    start: StartEngine = start_engine
    """how engines are started"""
    first: tuple[Mapping[str, Any], ...] = ()
    """`Problem.first`"""


def tune(study: Study, folder: RunFolder, options: TuneOptions, ui: Ui) -> Results:
    """Run the study in `folder` and keep its results there.

    Raises `StallfreeError` subclasses; `KeyboardInterrupt` passes through. Either way what is
    finished stays in the folder for `resume`.
    """
    with folder.lock():
        begin(study, folder, options.study_file, resume=options.resume, fresh=options.fresh)
        with recorded(folder, ui) as recording:
            return _tune(study, folder, options, recording)


def _tune(study: Study, folder: RunFolder, options: TuneOptions, ui: Ui) -> Results:
    """`tune`, in a folder that is held."""
    trace = run_trace(study, folder, ui)
    slo_of(study, trace)  # an unknown class is found before minutes are spent
    require_room(trace, study.fixed.max_model_len)
    measured = run_profile(study, folder, trace, ui, options.start)
    if study.fleet is not None:
        return tune_fleet(study, folder, trace, measured, ui)
    problem = replace(build_problem(study, trace, measured), first=options.first)
    trials = run_search(study, folder, problem, ui)
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
        require_trials(folder.database)  # without a search there is no run to record
        with recorded(folder, ui) as recording:
            if study.fleet is None:
                return _confirm_again(study, folder, recording, again=again, start=start)
            from tuner.search.fleet_confirm import confirm_fleet  # needs vLLM's extra

            return confirm_fleet(study, folder, recording, again=again)


def _confirm_again(
    study: Study, folder: RunFolder, ui: Ui, *, again: bool, start: StartEngine
) -> Results:
    """`confirm_again` of one engine, in a folder that is held."""
    trials = load_trials(folder.database)
    trace = Trace.load(folder.trace)
    measured = run_profile(study, folder, trace, ui, start)
    problem = build_problem(study, trace, measured)
    if again:
        folder.forget("confirm")
    return finish(Parts(study, folder, problem, measured, trials), ui, start)


@dataclass(frozen=True)
class Parts:
    """What is there when the search has finished."""

    study: Study
    folder: RunFolder
    problem: Problem
    measured: Profile
    trials: list[Trial]

    def results(self, candidates: list[Candidate], recommendation: Recommendation) -> Results:
        """The outcome of the run."""
        problem, facts = self.problem, self.measured.facts
        run = Finished(self.study, problem.trace, problem.slo, facts, self.trials)
        return build_results(run, candidates, recommendation)


def finish(parts: Parts, ui: Ui, start: StartEngine) -> Results:
    """Confirm, decide, and keep the results."""
    candidates = run_confirm(parts, ui, start)
    results = parts.results(candidates, recommend(candidates))
    parts.folder.save_results(results)
    return results


def finish_predicted(parts: Parts, ui: Ui) -> Results:
    """Decide by prediction alone: nobody holds the device. `confirm_again` rehearses."""
    ui.stage(
        "the profile was made without an engine: predicted only; `stallfree confirm` rehearses"
    )
    candidates = predicted_candidates(parts.problem, parts.trials, parts.study.validate_.top)
    results = parts.results(candidates, recommend_predicted(candidates))
    parts.folder.save_results(results)
    return results


_PARTS = {"traffic", "engine", "profile", "slo", "fleet"}


def fingerprint(study: Study) -> str:
    """Digest of what a run's parts depend on: `_PARTS`, space, windows."""
    content = study.model_dump(mode="json", include=_PARTS)
    del content["engine"]["unchecked"]  # a refused run goes on with --unchecked-engine
    content["search"] = study.search.model_dump(mode="json", include={"space", "windows"})
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def begin(study: Study, folder: RunFolder, study_file: Path, *, resume: bool, fresh: bool) -> None:
    """Make `folder` the study's own, or check that it is (`RunFolder.begin`).

    Its copy of the study is the file as it is; where the command line changed the study, all of the
    changed one: a run goes on, is looked at and is cloned from its copy.
    """
    text, base = study_file.read_text(encoding="utf-8"), folder.base_of(study_file)
    if placed(parse_study(text, f"study {study_file}"), base, needed=False) != study:
        text = text_of(study)
    facts = {"fingerprint": fingerprint(study), "base": str(base)}
    folder.begin(text, facts, resume=resume, fresh=fresh)


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
