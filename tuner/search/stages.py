"""The parts of a run, each kept in the run folder as soon as it is done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from profiler.collect import Profile, profile
from profiler.engines import start_engine
from profiler.engines.base import Engine, EngineSpec
from profiler.errors import StudyError
from profiler.traffic.trace import Trace
from tuner.results import RunFolder
from tuner.schema import Study
from tuner.search.checked import checked_engine, unchecked_note
from tuner.search.optimize import SearchOptions, search
from tuner.search.pareto import Trial
from tuner.search.predicted import predict
from tuner.search.progress import Ui
from tuner.search.searchable import Choice, Searchable
from tuner.study import read_traffic
from tuner.whole_files import whole_folder, write_json, writing

StartEngine = Callable[[EngineSpec], Engine]


def run_trace(study: Study, folder: RunFolder, ui: Ui) -> Trace:
    """The study's traffic, from the run folder when it is already there; how it was read is kept
    beside it."""
    if folder.trace.exists():
        return Trace.load(folder.trace)
    ui.stage("preparing the traffic")
    trace, report = read_traffic(study)
    with writing(folder.trace):
        if report is not None:
            write_json(folder.trace_report, report.to_dict())
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


def run_search(study: Study, folder: RunFolder, problem: Searchable[Choice], ui: Ui) -> list[Trial]:
    """Every finished trial, those of an earlier, interrupted run included."""
    options = SearchOptions(study.search.trials, study.search.workers, study.search.seed)
    ui.stage(f"searching {options.trials} configurations")
    with ui.progress("search") as progress:
        return search(problem, folder.database, options, progress)
