"""Confirming in alternating rounds, whatever is confirmed: engines alive, replays kept, figures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from profiler.errors import EngineStartError, EvidenceError, StallfreeError
from profiler.outcomes import Outcomes
from profiler.traffic.trace import Trace
from tuner.intervals import over_windows
from tuner.metrics import Metrics, pool
from tuner.results import RunFolder
from tuner.saved_replay import SavedReplay
from tuner.search.progress import Ui
from tuner.slo import Slo
from tuner.windows import draw_windows

ATTEMPTS = 2
"""replays tried when one is no evidence, before the round goes without"""


class Stoppable(Protocol):
    """An engine, or several as one."""

    def stop(self) -> None: ...


WhatT = TypeVar("WhatT")
AliveT = TypeVar("AliveT", bound=Stoppable)
SeenT = TypeVar("SeenT")


class Engines(Generic[WhatT, AliveT]):
    """Hands out started engines: all kept alive, or one at a time."""

    def __init__(self, start: Callable[[WhatT], AliveT], *, keep_alive: bool) -> None:
        self._start, self._keep_alive = start, keep_alive
        self._alive: dict[str, AliveT] = {}

    def get(self, label: str, what: WhatT) -> AliveT:
        """The engine called `label`, started if needed. Raises `EngineStartError`."""
        if label not in self._alive:
            if not self._keep_alive:
                self.stop()
            self._alive[label] = self._start(what)
        return self._alive[label]

    def stop(self) -> None:
        """Stop every engine that is alive."""
        while self._alive:
            self._alive.popitem()[1].stop()


@contextmanager
def engines(
    start: Callable[[WhatT], AliveT], *, keep_alive: bool
) -> Iterator[Engines[WhatT, AliveT]]:
    """Engines that all stop at the end."""
    with ExitStack() as stack:
        alive = Engines(start, keep_alive=keep_alive)
        stack.callback(alive.stop)
        yield alive


@dataclass(frozen=True)
class Rounds:
    """What is replayed how often."""

    keys: Mapping[str, str]
    """label -> name of its replays in the run folder"""
    count: int

    def run(
        self, folder: RunFolder, measure: Callable[[str, int], SavedReplay], ui: Ui
    ) -> dict[str, StallfreeError]:
        """Call `measure` with (label, round) for every replay that `folder` does not hold yet, and
        keep what it gives; the order alternates (A B C, C B A, ...).

        Returns why labels that did not start, or have no evidence, have a replay less. Whatever
        else is raised passes through; what was measured until then is kept.
        """
        failures: dict[str, StallfreeError] = {}
        for round_ in range(self.count):
            order = list(self.keys)
            for label in order if round_ % 2 == 0 else reversed(order):
                key = self.keys[label]
                if isinstance(failures.get(label), EngineStartError):
                    continue
                if folder.load_replay(key, round_) is not None:
                    continue
                try:
                    folder.save_replay(key, round_, measure(label, round_))
                except (EngineStartError, EvidenceError) as error:
                    failures[label] = error
                    ui.stage(f"round {round_ + 1} has no replay of {label}: {error}")
        return failures

    def kept(self, folder: RunFolder, label: str) -> list[SavedReplay]:
        """The replays of `label` that `folder` holds."""
        found = [folder.load_replay(self.keys[label], r) for r in range(self.count)]
        return [saved for saved in found if saved is not None]


def key_of(*what: Any) -> str:
    """Folder name of the replays of `what`, plain data: settings and the digest of the traffic.

    So a resumed run repeats no replay, and takes no other configuration's for its own.
    """
    text = json.dumps(what, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def replay_facts(saved: Iterable[SavedReplay]) -> list[dict[str, Any]]:
    """`Candidate.replays` of kept replays."""
    names = ("speed", "fidelity", "engine_version", "frontend_s")
    return [{k: s.facts[k] for k in names if k in s.facts} for s in saved]


def with_evidence(
    play: Callable[[], SeenT], require: Callable[[SeenT], None], label: str, ui: Ui
) -> SeenT:
    """What a replay gave that `require` finds to be evidence. Raises `EvidenceError` when none of
    `ATTEMPTS` is."""
    for attempt in range(1, ATTEMPTS + 1):
        seen = play()
        try:
            require(seen)
            break
        except EvidenceError as error:
            if attempt == ATTEMPTS:
                raise
            ui.stage(f"{label}: {error}; once more")
    return seen


@dataclass(frozen=True)
class Predictions:
    """Which simulations a confirmed configuration is predicted by."""

    trace: Trace
    """exactly the replayed requests"""
    slo: Slo
    rounds: int
    windows: int
    seed: int

    def metrics(self, outcomes: Callable[[Trace, int], Outcomes]) -> Metrics:
        """Predicted metrics; `outcomes` simulates a trace with a seed.

        Pooled over as many rounds as are replayed, each with its own jitter: a p99 of few requests
        depends on how many there are. So is every window.
        """

        def pooled(trace: Trace, window: int) -> Outcomes:
            first = self.seed + window * self.rounds
            return pool([outcomes(trace, first + round_) for round_ in range(self.rounds)])

        drawn = enumerate(draw_windows(self.trace, self.windows), start=1)
        return over_windows(
            pooled(self.trace, 0), (pooled(trace, window) for window, trace in drawn), self.slo
        )
