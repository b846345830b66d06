"""Scores of options under conditions: each simulated once, on several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field

from profiler.engines.base import Progress
from profiler.errors import SimulationError
from tuner.search.processes import begin_worker
from tuner.verdict.conditions import LINK_BANDWIDTH, Conditions
from tuner.verdict.options import SIDES, Option, Score, Side

Evaluate = Callable[[Option, Conditions], Score]
"""picklable where there are worker processes"""
Job = tuple[Option, Conditions]
Run = Callable[[Sequence[Job], Callable[[], None]], list[Score]]
"""scores of jobs, in order; calls its second argument after each"""
Key = tuple[int, Conditions]
"""index of an option, and the conditions"""


@dataclass
class Evaluations:
    """The options and what is known of them."""

    options: Sequence[Option]
    run: Run
    known: dict[Key, Score] = field(default_factory=dict)

    def need(self, where: Iterable[Conditions], progress: Progress) -> None:
        """Simulate every option under each of the conditions, unless that is known."""
        self._simulate([self._key(i, c) for c in where for i in range(len(self.options))], progress)

    def of(self, index: int, where: Sequence[Conditions], progress: Progress) -> list[Score]:
        """Scores of one option under each of the conditions."""
        keys = [self._key(index, c) for c in where]
        self._simulate(keys, progress)
        return [self.known[key] for key in keys]

    def score(self, index: int, where: Conditions) -> Score:
        """The score of an option that has been simulated under the conditions."""
        return self.known[self._key(index, where)]

    def best(self, side: Side, where: Conditions) -> tuple[int, Score]:
        """The best option of a side under conditions that `need` was called with."""
        found = {
            i: self.score(i, where) for i, option in enumerate(self.options) if option.side is side
        }
        index = min(found, key=lambda i: (found[i].key, i))
        return index, found[index]

    def both(self, where: Conditions) -> tuple[tuple[int, Score], tuple[int, Score]]:
        """The best aggregated and the best split option."""
        aggregated, disaggregated = (self.best(side, where) for side in SIDES)
        return aggregated, disaggregated

    def _key(self, index: int, where: Conditions) -> Key:
        """An aggregated fleet has no link to vary."""
        aggregated = self.options[index].side is Side.AGGREGATED
        return index, where.at(LINK_BANDWIDTH, 1.0) if aggregated else where

    def _simulate(self, keys: Sequence[Key], progress: Progress) -> None:
        missing = [key for key in dict.fromkeys(keys) if key not in self.known]
        done = 0
        progress(0, len(missing))

        def count() -> None:
            nonlocal done
            done += 1
            progress(done, len(missing))

        scores = self.run([(self.options[i], where) for i, where in missing], count)
        self.known |= zip(missing, scores, strict=True)


@contextmanager
def runner(evaluate: Evaluate, workers: int) -> Iterator[Run]:
    """Runs jobs here, or on `workers` processes that are started once.

    The first job of each side always runs here, so that the simulator is compiled before there are
    workers. Ctrl-C ends the workers after the simulations they are in.
    """
    if workers == 1:
        yield lambda jobs, count: [_counted(evaluate, job, count) for job in jobs]
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=_begin, initargs=(evaluate,)
    )
    warm: set[Side] = set()

    def run(jobs: Sequence[Job], count: Callable[[], None]) -> list[Score]:
        known: dict[int, Score] = {}
        for number, job in enumerate(jobs):
            if job[0].side not in warm:
                warm.add(job[0].side)
                known[number] = _counted(evaluate, job, count)
        return _in_pool(pool, jobs, known, count)

    try:
        yield run
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _counted(evaluate: Evaluate, job: Job, count: Callable[[], None]) -> Score:
    score = evaluate(*job)
    count()
    return score


def _in_pool(
    pool: ProcessPoolExecutor,
    jobs: Sequence[Job],
    known: dict[int, Score],
    count: Callable[[], None],
) -> list[Score]:
    """Scores of the jobs whose numbers are not in `known`, and those; in order."""
    try:
        missing = [n for n in range(len(jobs)) if n not in known]
        futures = {pool.submit(_work, *jobs[n]): n for n in missing}
        for future in as_completed(futures):
            known[futures[future]] = future.result()
            count()
    except BrokenProcessPool as error:
        raise SimulationError(
            "a worker of the verdict was killed (out of memory?); try again with fewer --workers"
        ) from error
    return [known[n] for n in range(len(jobs))]


_life: dict[str, Evaluate] = {}
"""of a worker process: how it evaluates; see `_begin`"""


def _begin(evaluate: Evaluate) -> None:
    begin_worker()
    _life["evaluate"] = evaluate


def _work(option: Option, where: Conditions) -> Score:
    return _life["evaluate"](option, where)
