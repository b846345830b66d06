"""The slow, obvious twin of a fleet: one schedule() call at a time, in order of time.

Nothing runs ahead, so nothing needs to be looked ahead: the next thing that happens anywhere is
looked for, and done. The engines are those of the simulator (they have twins of their own).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from router_reference import TwinRouter

from profiler.traffic.trace import Trace
from tuner.simulator.build import draw_jitter
from tuner.simulator.fleet import Fleet, plan_fleet
from tuner.simulator.fleet_build import FleetPlan, accepted_by
from tuner.simulator.kernel import run_all
from tuner.simulator.pool_build import (
    DECODE,
    PREFILL,
    BuiltPool,
    build_pool,
    empty_replica,
)
from tuner.simulator.prefix_keys import prefix_blocks
from tuner.simulator.state import ALL_DONE, ENDLESS, SCHEDULE_AT, STUCK, VISIBLE, FloatArray
from tuner.simulator.transfer_arrays import (
    NEXT_END,
    NUM_RELEASED,
    NUM_STARTED,
    UNTIL,
)


@dataclass
class Request:
    """What became of one."""

    number: int
    arrival_s: float
    prompt_tokens: int
    blocks: list[int]
    first: int = -1
    slot: int = -1
    decode: int = -1
    prefill_s: float = np.nan
    load_s: tuple[float, float] = (np.nan, np.nan)
    tokens_s: tuple[float, float] = (np.nan, np.nan)


@dataclass(eq=False)
class Engine:
    """One replica."""

    built: BuiltPool
    state: Any
    jitter: FloatArray
    number: int
    requests: list[Request] = field(default_factory=list)
    status: int = STUCK
    num_seen: int = 0
    num_started: int = 0
    outstanding: list[tuple[Request, float]] = field(default_factory=list)
    """requests, and when the router has their answer; infinite before that is known"""
    sent_blocks: set[int] = field(default_factory=set)

    @property
    def role(self) -> str:
        return self.built.side.role

    @property
    def clock_s(self) -> float:
        at = float(self.state.tally.times[SCHEDULE_AT])
        if self.status != STUCK:
            return np.inf if self.status == ALL_DONE else at
        arrival_s = self.state.requests.visible_s[self.state.tally.counts[VISIBLE]]
        return max(at, min(float(arrival_s), float(self.state.transfers.times[NEXT_END])))

    def step(self) -> None:
        """Every schedule() call of this very moment."""
        self.state.transfers.times[UNTIL] = np.nextafter(self.clock_s, np.inf)
        params = self.built.side.pool.model.params
        self.status = int(run_all(self.state, self.built.limits, params, self.jitter))

    def receive(self, request: Request, visible_s: float, rank: int, fails: bool) -> int:
        """Into the next slot. Ranks leave room for the order of arrival."""
        slot, q = len(self.requests), request.number
        mine, here = self.state.requests, self.built.requests
        cast(Any, mine)[slot] = cast(Any, here)[q]
        mine.visible_s[slot], mine.urgency[slot] = visible_s, rank * 10**6 + slot
        if slot and mine.visible_s[slot - 1] == visible_s:
            mine.urgency[slot] = rank * 10**6 + mine.urgency[slot - 1] % 10**6
        if self.state.prefixes.start.size:
            for name in ("start", "shared", "private", "findable"):
                column = getattr(self.built.prefixes, name)
                getattr(self.state.prefixes, name)[slot] = column[q]
        self.state.transfers.moves.fails[slot] = fails and self.role == DECODE
        self.requests.append(request)
        self.outstanding.append((request, np.inf))
        return slot


class FleetReference:
    """Runs in `__init__`; then `requests` and `engines` tell."""

    def __init__(self, trace: Trace, fleet: Fleet, fails: Any = None) -> None:
        self.plan = plan_fleet(trace, fleet, None, 0, fails)
        self.takes = accepted_by(self.plan)
        assert self.takes.any(axis=0).all()
        self.engines = build_engines(self.plan, self.takes)
        self.ranks = np.unique(
            np.zeros(trace.num_requests) if trace.priority is None else trace.priority,
            return_inverse=True,
        )[1]
        self.requests = build_requests(trace)
        self.router = TwinRouter(fleet.router, self)
        self.ended: list[tuple[float, int]] = []
        self.endless = False
        self.run()

    def run(self) -> None:
        """One thing after the other."""
        waiting = list(self.requests)
        out_s = self.plan.sides[-2].pool.model.frontend_out_s if self.plan.wires else 0.0
        while True:
            engine = min(self.engines, key=lambda e: e.clock_s)
            arrival_s = waiting[0].arrival_s if waiting else np.inf
            handed_s = min(self.ended)[0] + out_s if self.ended else np.inf
            if min(arrival_s, handed_s, engine.clock_s) == np.inf:
                return
            if handed_s <= min(arrival_s, engine.clock_s):
                self.hand_over(*min(self.ended))
            elif arrival_s <= engine.clock_s:
                self.route(waiting.pop(0))
            else:
                engine.step()
                if engine.status == ENDLESS:
                    self.endless = True
                    return
                self.look_at(engine)

    def route(self, request: Request) -> None:
        """To its first replica."""
        engine = self.router.choose_first(request)
        request.first = engine.number
        visible_s = request.arrival_s + engine.built.side.pool.model.frontend_in_s
        request.slot = engine.receive(request, visible_s, self.ranks[request.number], False)

    def hand_over(self, ended_s: float, number: int) -> None:
        """To a decode replica."""
        self.ended.remove((ended_s, number))
        assert self.plan.wires is not None
        request = self.requests[number]
        now = ended_s + self.plan.sides[-2].pool.model.frontend_out_s
        engine = self.router.choose_decode(request, now)
        request.decode = engine.number
        visible_s = ended_s + self.plan.wires.hop_s
        engine.receive(request, visible_s, self.ranks[number], bool(self.plan.fails[number]))

    def look_at(self, engine: Engine) -> None:
        """What has ended and what has started to load in `engine`."""
        state, moves = engine.state, engine.state.transfers.moves
        counts = state.transfers.counts
        for e in range(engine.num_seen, counts[NUM_RELEASED]):
            self.end(engine, int(state.transfers.released[e]), float(state.transfers.released_s[e]))
        engine.num_seen = int(counts[NUM_RELEASED])
        for slot in state.transfers.started[: counts[NUM_STARTED]]:
            request = engine.requests[slot]
            request.load_s = float(moves.start_s[slot]), float(moves.end_s[slot])
            there = self.engines[request.first].state.transfers
            there.moves.end_s[request.slot] = moves.end_s[slot]
            there.times[NEXT_END] = min(there.times[NEXT_END], moves.end_s[slot])

    def end(self, engine: Engine, slot: int, when: float) -> None:
        """The request in `slot` has ended: its answer is on the way."""
        request, progress = engine.requests[slot], engine.state.progress
        out_s = engine.built.side.pool.model.frontend_out_s
        if engine.role == PREFILL:
            request.prefill_s = when
            self.ended.append((when, request.number))
        else:
            request.tokens_s = progress.first_token_s[slot] + out_s, progress.finish_s[slot] + out_s
        entry = next(i for i, (r, _) in enumerate(engine.outstanding) if r is request)
        engine.outstanding[entry] = (request, when + out_s)


def build_engines(plan: FleetPlan, takes: Any) -> list[Engine]:
    """All replicas, with slots for every request and one more; blocks have identities."""
    engines = list[Engine]()
    everyone = np.ones(plan.trace.num_requests, np.bool_)
    for p, side in enumerate(plan.sides):
        built = build_pool(plan.trace, everyone, side, plan.wires, identities=True)
        for _ in range(side.pool.num_replicas):
            i = len(engines)
            state = empty_replica(built, takes[p], plan.trace.num_requests + 1, plan.itl_limit_s)
            jitter = draw_jitter(side.pool.model.residuals, i)
            engines.append(Engine(built, state, jitter, i))
    return engines


def build_requests(trace: Trace) -> list[Request]:
    """None of them has been sent."""
    ids, offsets = prefix_blocks(trace).ids, trace.prefix_offsets
    requests = []
    for q in range(trace.num_requests):
        blocks = [] if offsets is None else ids[offsets[q] : offsets[q + 1]].tolist()
        arrival_s, prompt = float(trace.arrival_s[q]), int(trace.prompt_tokens[q])
        requests.append(Request(q, arrival_s, prompt, blocks))
    return requests
