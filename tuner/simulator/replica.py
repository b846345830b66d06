"""One replica of a pool: an engine that runs as far as the others allow."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from profiler.errors import SimulationError
from profiler.latency.params import StepTimeParams
from tuner.simulator.gap_store import GapStore
from tuner.simulator.kernel import run_all
from tuner.simulator.memory import Inputs
from tuner.simulator.pool_arrays import Prefixes
from tuner.simulator.run import run_to_end
from tuner.simulator.state import (
    ALL_DONE,
    BLOCKS_MATTER,
    ENDLESS,
    SCHEDULE_AT,
    STUCK,
    VISIBLE,
    FloatArray,
    IntArray,
    Limits,
    Requests,
    State,
)
from tuner.simulator.transfer_arrays import (
    NEXT_END,
    NUM_RELEASED,
    NUM_STARTED,
    UNTIL,
    Rules,
    Transfers,
)
from tuner.simulator.transfer_build import Script, allocate_engine, build_transfers


class BlocksMatter(Exception):
    """A preempted request may hit its own blocks: run again with identities."""


class Columns(NamedTuple):
    """What is known of the requests that a pool may get."""

    requests: Requests
    prefixes: Prefixes
    script: Script

    def take(self, rows: IntArray) -> Columns:
        """The requests at `rows`; nothing is shared with the original but `Prefixes.ids`."""
        requests = cast(Requests, cast(Any, self.requests)[rows])
        prefixes = self.prefixes
        if prefixes.start.size:
            own = {n: getattr(prefixes, n)[rows] for n in Prefixes._fields if n != "ids"}
            prefixes = prefixes._replace(**own)
        script = Script(**{n: column[rows] for n, column in self.script._asdict().items()})
        return Columns(requests, prefixes, script)


class PoolData(NamedTuple):
    """What the replicas of a pool have in common."""

    num_kv_blocks: int
    itl_limit_s: FloatArray
    params: StepTimeParams
    jitter: FloatArray
    rules: Rules


class Replica:
    """An engine with slots for requests, in order of their arrival.

    Parameters
    ----------
    columns
        The requests of its slots; `visible_s` is infinite where none has arrived.
    limits
        Of its pool.
    """

    def __init__(self, columns: Columns, limits: Limits, pool: PoolData) -> None:
        transfers = build_transfers(columns.script, pool.rules)
        inputs = Inputs(columns.requests, columns.prefixes, None, transfers)
        self.state: State = allocate_engine(inputs, limits, pool.num_kv_blocks, pool.itl_limit_s)
        self.transfers: Transfers = transfers
        self.limits, self.pool = limits, pool
        self.gaps = GapStore(pool.itl_limit_s.size)
        self.requests: list[int] = []
        """request in each filled slot"""
        self.status = STUCK
        self.num_seen = 0
        self.num_unsent = 0
        """requests whose blocks it holds until a time that is not known"""

    @property
    def clock_s(self) -> float:
        """When its next schedule() call is, as far as is known."""
        at = float(self.state.tally.times[SCHEDULE_AT])
        if self.status == ALL_DONE:
            return np.inf
        if self.status != STUCK:
            return at
        visible_s, seen = self.state.requests.visible_s, self.state.tally.counts[VISIBLE]
        arrival_s = visible_s[seen] if seen < visible_s.size else np.inf
        return max(at, min(float(arrival_s), float(self.transfers.times[NEXT_END])))

    @property
    def is_idle(self) -> bool:
        """It has nothing to do before `clock_s`, or before a transfer ends whose end it does not
        know."""
        return self.status == STUCK

    @property
    def next_start_s(self) -> float:
        """Before this, none of the requests that it has starts to load."""
        waiting = len(self.requests) - int(self.transfers.counts[NUM_STARTED])
        return self.clock_s if waiting else np.inf

    def run(self, until_s: float) -> bool:
        """All schedule() calls before `until_s`; returns whether there was anything to do."""
        if self.clock_s >= until_s:
            return False
        self.transfers.times[UNTIL] = until_s
        self.state, self.status = run_to_end(self.state, self.call_kernel, self.gaps)
        if self.status == BLOCKS_MATTER:
            raise BlocksMatter
        if self.status == ENDLESS:
            raise SimulationError(
                "an engine of the pools preempts the same requests for ever; "
                "give its pool more KV blocks"
            )
        return True

    def call_kernel(self, state: State) -> int:
        """A `KernelCall`."""
        return int(run_all(state, self.limits, self.pool.params, self.pool.jitter))

    def receive(self, request: int, columns: Columns, visible_s: float) -> None:
        """`request`, described by row `request` of `columns`, reaches the scheduler."""
        slot = len(self.requests)
        mine = self.state.requests
        cast(Any, mine)[slot] = cast(Any, columns.requests)[request]
        mine.visible_s[slot] = visible_s
        if self.limits.priority:
            same = slot > 0 and mine.visible_s[slot - 1] == visible_s
            order = mine.urgency[slot - 1] % mine.urgency.size if same else slot
            mine.urgency[slot] = mine.urgency[slot] * mine.urgency.size + order
        if self.state.prefixes.start.size:
            for name in ("start", "shared", "private", "findable"):
                column = getattr(columns.prefixes, name)
                getattr(self.state.prefixes, name)[slot] = column[request]
        self.transfers.moves.fails[slot] = columns.script.fails[request]
        self.requests.append(request)

    def take_new(self, which: int) -> list[int]:
        """Slots released (NUM_RELEASED, prefill) or started to load (NUM_STARTED, decode) since the
        last look."""
        log = self.transfers.released if which == NUM_RELEASED else self.transfers.started
        first, self.num_seen = self.num_seen, int(self.transfers.counts[which])
        return [int(slot) for slot in log[first : self.num_seen]]

    def sent(self, slot: int, end_s: float) -> None:
        """The blocks of `slot` will have been sent by `end_s`."""
        self.num_unsent -= bool(np.isinf(self.transfers.moves.end_s[slot]))
        self.transfers.moves.end_s[slot] = end_s
        times = self.transfers.times
        times[NEXT_END] = min(times[NEXT_END], end_s)
