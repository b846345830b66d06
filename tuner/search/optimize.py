"""The search: Optuna over simulated candidates, in a database that survives a kill.

Three objectives (TTFT p99, ITL p99, worth: goodput, of a fleet per GPU) and the SLOs as
constraints, sampled by multi-objective TPE (Ozaki et al., "Multiobjective Tree-Structured Parzen
Estimator", JAIR 2022). Trial 0 is always the engine's own default; the problem's other starting
points follow. The sampler of each trial is seeded with (seed, worker,
finished trials), so that one worker gives the same trials whether it was interrupted or not.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Generic

import numpy as np
import optuna
from optuna.trial import TrialState

from profiler.engines.base import Progress
from profiler.errors import SimulationError
from tuner.metrics import Metrics
from tuner.search.database import finished_trials, open_study, release_unfinished, rows_of
from tuner.search.objective import REFUSED, constraints, values
from tuner.search.pareto import Trial
from tuner.search.processes import begin_worker
from tuner.search.searchable import Choice, Searchable
from tuner.search.space import representable, suggest

STARTUP_TRIALS = 20
"""random trials before the sampler learns"""


@dataclass(frozen=True)
class SearchOptions:
    """How long, on how many processes, from which seed."""

    trials: int
    workers: int
    seed: int


def search(
    problem: Searchable[Choice], database: Path, options: SearchOptions, progress: Progress
) -> list[Trial]:
    """Finished trials, `options.trials` in all, those of an earlier, killed run included.

    Raises `ResultsError` when the database is locked, damaged or cannot grow, and what
    `problem.evaluate` raises for the engine default.
    """
    with open_study(database) as study:
        release_unfinished(study)
        if not finished_trials(study):
            _add_default(study, problem)
        done = len(finished_trials(study))
        count = 1 if options.trials - done < options.workers else options.workers
        starts = _missing_starts(study, problem)
        workers = [
            _Worker(problem, database, options.seed, i, tuple(starts[i::count]))
            for i in range(count)
        ]
        if count == 1:
            _run_here(study, workers[0], options.trials, progress)
        else:
            _run_in_processes(workers, done, options.trials, progress)
        return rows_of(study)


def _missing_starts(study: optuna.Study, problem: Searchable[Choice]) -> list[Choice]:
    """The starting points that no finished trial has tried."""
    known = [trial.user_attrs["settings"] for trial in finished_trials(study)]
    return [choice for choice in problem.starts() if choice.settings() not in known]


def _add_default(study: optuna.Study, problem: Searchable[Choice]) -> None:
    """Trial 0. Also compiles the simulator, before any worker process starts."""
    _add(study, problem, problem.default, problem.evaluate(problem.default))


def _add(
    study: optuna.Study, problem: Searchable[Choice], choice: Choice, found: Metrics | Exception
) -> None:
    """Add a trial that was not sampled; what of it lies inside the space teaches the sampler."""
    raw = problem.raw(choice)
    params, known = representable(problem.axes(raw), raw)
    facts: dict[str, Any] = {"settings": choice.settings()}
    told: dict[str, Any] = {"state": TrialState.PRUNED}
    if isinstance(found, Metrics):
        facts["metrics"] = found.to_dict()
        told = {"values": values(found, problem.worth(choice, found))}
        told["constraints"] = constraints(found)
    else:
        facts["refused"] = str(found)
    trial = optuna.trial.create_trial(params=params, distributions=known, user_attrs=facts, **told)
    study.add_trial(trial)


@dataclass(frozen=True)
class _Worker(Generic[Choice]):
    """One process's part of the search."""

    problem: Searchable[Choice]
    database: Path
    seed: int
    index: int

    starts: tuple[Choice, ...] = ()
    """its share of the starting points that are not finished yet"""

    def run(self, study: optuna.Study, before: int, number: int) -> None:
        """Its trial `number` (0 ..) after `before` finished ones: a starting point, or sampled."""
        if number < len(self.starts):
            self.run_start(study, self.starts[number])
        else:
            self.run_trial(study, before + number)

    def run_start(self, study: optuna.Study, choice: Choice) -> None:
        """Evaluate a starting point and add it to the study."""
        found: Metrics | Exception
        try:
            found = self.problem.evaluate(choice)
        except REFUSED as error:
            found = error
        _add(study, self.problem, choice, found)

    def run_trial(self, study: optuna.Study, finished: int) -> None:
        """Ask for one candidate, evaluate it, and tell the study."""
        study.sampler = optuna.samplers.TPESampler(
            seed=_mix(self.seed, self.index, finished), n_startup_trials=STARTUP_TRIALS
        )
        trial = study.ask()
        choice = self.problem.candidate(suggest(trial, self.problem.axes))
        trial.set_user_attr("settings", choice.settings())
        try:
            metrics = self.problem.evaluate(choice)
        except REFUSED as error:
            trial.set_user_attr("refused", str(error))
            study.tell(trial, state=TrialState.PRUNED)
            return
        trial.set_user_attr("metrics", metrics.to_dict())
        for name, violation in constraints(metrics).items():
            trial.set_constraint(name, violation)
        study.tell(trial, values(metrics, self.problem.worth(choice, metrics)))


def _mix(*numbers: int) -> int:
    """One 32-bit seed from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def _run_here(study: optuna.Study, worker: _Worker[Choice], total: int, progress: Progress) -> None:
    before = len(finished_trials(study))
    progress(before, total)
    for number in range(total - before):
        worker.run(study, before, number)
        progress(before + number + 1, total)


def _run_in_processes(
    workers: Sequence[_Worker[Choice]], done: int, total: int, progress: Progress
) -> None:
    """Share the missing trials among processes. They stop between trials on Ctrl-C.

    The parent leaves the database alone meanwhile: interrupted inside a query, it would keep a
    lock that the workers wait for.
    """
    context = multiprocessing.get_context("spawn")
    stop, count = context.Event(), context.Value("q", done)
    shares = _shares(total - done, len(workers))
    pool = ProcessPoolExecutor(
        len(workers), mp_context=context, initializer=_begin_worker, initargs=(stop, count)
    )
    with pool:
        try:
            futures = [
                pool.submit(_work, worker, done, share)
                for worker, share in zip(workers, shares, strict=True)
            ]
            _watch(futures, lambda: progress(count.value, total))
        except BrokenProcessPool as error:
            raise SimulationError(
                "a search worker was killed (out of memory?); finished trials are kept, go on "
                "with --resume and fewer --workers"
            ) from error
        finally:
            stop.set()


def _watch(futures: list[Future[None]], show: Callable[[], None]) -> None:
    """Wait for all, showing progress; raise the first error."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=0.5)
        show()
        for future in done:
            future.result()


def _shares(total: int, parts: int) -> list[int]:
    """`total` split as evenly as it goes."""
    return [total // parts + (i < total % parts) for i in range(parts)]


_worker_life: dict[str, Any] = {}
"""of a worker process: the stop event and the count of finished trials; see `_begin_worker`"""


def _begin_worker(stop: Event, count: Synchronized[int]) -> None:
    begin_worker()
    _worker_life.update(stop=stop, count=count)


def _work(worker: _Worker[Choice], start: int, count: int) -> None:
    """Run `count` trials in a worker process, or fewer when told to stop."""
    with open_study(worker.database) as study:
        for i in range(count):
            if _worker_life["stop"].is_set():
                return
            worker.run(study, start, i)
            with _worker_life["count"].get_lock():
                _worker_life["count"].value += 1
