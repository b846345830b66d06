"""The search: Optuna over simulated candidates, in a database that survives a kill.

Three objectives (TTFT p99, ITL p99, goodput) and the SLOs as constraints, sampled by
multi-objective TPE (Ozaki et al., "Multiobjective Tree-Structured Parzen Estimator", JAIR 2022).
Trial 0 is always the engine's own default. The sampler of each trial is seeded with (seed, worker,
finished trials), so that one worker gives the same trials whether it was interrupted or not.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from profiler.engine_config import EngineConfig
from profiler.engines.base import Progress
from profiler.errors import ResultsError, SimulationError
from tuner.metrics import Metrics
from tuner.search.objective import REFUSED, Problem, constraints, values
from tuner.search.pareto import Trial
from tuner.search.space import representable, suggest

STARTUP_TRIALS = 20
"""random trials before the sampler learns"""
_FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
_STUDY = "stallfree"
_LOCK_TIMEOUT_S = 60.0
IN_MEMORY = Path(":memory:")
"""a `database` that is gone with the search, for one worker"""


First = tuple[Mapping[str, Any], ...]
"""settings that a search tries first"""


@dataclass(frozen=True)
class SearchOptions:
    """How long, on how many processes, from which seed."""

    trials: int
    workers: int
    seed: int
    first: First = ()
    """right after the default, for example the best for other traffic; what lies outside the
    space is sampled"""


def search(
    problem: Problem, database: Path, options: SearchOptions, progress: Progress
) -> list[Trial]:
    """Finished trials, `options.trials` in all, those of an earlier, killed run included.

    Raises `ResultsError` when the database is locked, damaged or cannot grow, and what
    `Problem.evaluate` raises for the engine default.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with _open(database) as study:
        _release_unfinished(study)
        if not _finished(study):
            _add_default(study, problem)
            _add_first(study, problem, options)
        done = len(_finished(study))
        if options.workers == 1 or options.trials - done < options.workers:
            worker = _Worker(problem, database, options.seed, 0)
            _run_here(study, worker, options.trials, progress)
        else:
            _run_in_processes(problem, database, options, done, progress)
        return _rows(study)


def load_trials(database: Path) -> list[Trial]:
    """The finished trials that `search` left in `database`."""
    if not database.exists():
        raise ResultsError(f"no search database {database}; run `stallfree tune` first")
    with _open(database) as study:
        return _rows(study)


@contextmanager
def _open(database: Path) -> Iterator[optuna.Study]:
    """The study in `database`, made if missing; its connections are closed at the end."""
    storage = None
    try:
        storage = optuna.storages.RDBStorage(
            f"sqlite:///{database}",
            engine_kwargs={"connect_args": {"timeout": _LOCK_TIMEOUT_S}},
        )
        yield optuna.create_study(
            storage=storage,
            study_name=_STUDY,
            directions=["minimize", "minimize", "maximize"],
            load_if_exists=True,
        )
    except (SQLAlchemyError, StorageInternalError) as error:
        cause = " ".join(str(error.__cause__ or error).split())
        raise ResultsError(
            f"search database {database}: {cause}; make sure that no other run uses it and that "
            "the disk has space, then go on with --resume"
        ) from error
    finally:
        if storage is not None:
            storage.remove_session()
            storage.engine.dispose()


def _finished(study: optuna.Study) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=_FINISHED)


def _release_unfinished(study: optuna.Study) -> None:
    """Mark what a killed run left running as failed, so that no sampler waits for it."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)


def _add_default(study: optuna.Study, problem: Problem) -> None:
    """Trial 0. Also compiles the simulator, before any worker process starts."""
    metrics = problem.evaluate(problem.fixed)
    params, known = representable(problem.space, problem.resolved)
    study.add_trial(
        optuna.trial.create_trial(
            values=values(metrics),
            params=params,
            distributions=known,
            user_attrs={"settings": problem.fixed.settings(), "metrics": metrics.to_dict()},
            constraints=constraints(metrics),
        )
    )


def _add_first(study: optuna.Study, problem: Problem, options: SearchOptions) -> None:
    """Put the settings that are to be tried first in front of what the sampler draws."""
    for settings in options.first:
        inside, _ = representable(problem.space, EngineConfig.from_settings(dict(settings)))
        if inside:
            study.enqueue_trial(inside, skip_if_exists=True)


@dataclass(frozen=True)
class _Worker:
    """One process's part of the search."""

    problem: Problem
    database: Path
    seed: int
    index: int

    def run_trial(self, study: optuna.Study, finished: int) -> None:
        """Ask for one candidate, evaluate it, and tell the study."""
        study.sampler = optuna.samplers.TPESampler(
            seed=_mix(self.seed, self.index, finished), n_startup_trials=STARTUP_TRIALS
        )
        trial = study.ask()
        config = self.problem.candidate(suggest(trial, self.problem.space))
        trial.set_user_attr("settings", config.settings())
        try:
            metrics = self.problem.evaluate(config)
        except REFUSED as error:
            trial.set_user_attr("refused", str(error))
            study.tell(trial, state=TrialState.PRUNED)
            return
        trial.set_user_attr("metrics", metrics.to_dict())
        for name, violation in constraints(metrics).items():
            trial.set_constraint(name, violation)
        study.tell(trial, values(metrics))


def _mix(*numbers: int) -> int:
    """One 32-bit seed from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def _run_here(study: optuna.Study, worker: _Worker, total: int, progress: Progress) -> None:
    finished = len(_finished(study))
    progress(finished, total)
    while finished < total:
        worker.run_trial(study, finished)
        finished += 1
        progress(finished, total)


def _run_in_processes(
    problem: Problem, database: Path, options: SearchOptions, done: int, progress: Progress
) -> None:
    """Share the missing trials among processes. They stop between trials on Ctrl-C.

    The parent leaves the database alone meanwhile: interrupted inside a query, it would keep a
    lock that the workers wait for.
    """
    context = multiprocessing.get_context("spawn")
    stop, count = context.Event(), context.Value("q", done)
    shares = _shares(options.trials - done, options.workers)
    pool = ProcessPoolExecutor(
        options.workers, mp_context=context, initializer=_begin_worker, initargs=(stop, count)
    )
    with pool:
        try:
            futures = [
                pool.submit(_work, _Worker(problem, database, options.seed, i), done, share)
                for i, share in enumerate(shares)
            ]
            _watch(futures, lambda: progress(count.value, options.trials))
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    _worker_life.update(stop=stop, count=count)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker when its parent is gone: it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(worker: _Worker, start: int, count: int) -> None:
    """Run `count` trials in a worker process, or fewer when told to stop."""
    with _open(worker.database) as study:
        for i in range(count):
            if _worker_life["stop"].is_set():
                return
            worker.run_trial(study, start + i)
            with _worker_life["count"].get_lock():
                _worker_life["count"].value += 1


def _rows(study: optuna.Study) -> list[Trial]:
    """The finished trials by number; the engine default is the first."""
    rows = []
    for number, trial in enumerate(sorted(_finished(study), key=lambda t: t.number)):
        attrs = trial.user_attrs
        metrics = _metrics(attrs["metrics"]) if "metrics" in attrs else None
        rows.append(Trial(number, attrs["settings"], metrics, attrs.get("refused")))
    return rows


def _metrics(plain: dict[str, Any]) -> Metrics:
    try:
        return Metrics.from_dict(plain)
    except KeyError as error:
        raise ResultsError(
            f"the search database is of another Stallfree version (no {error} in its trials); run "
            "the study again with --fresh"
        ) from error
