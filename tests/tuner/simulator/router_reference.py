"""The slow, obvious twin of a fleet's router."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tuner.simulator.pool_build import DECODE
from tuner.simulator.router import Router

if TYPE_CHECKING:  # the fleet's twin needs the router's
    from fleet_reference import Engine, FleetReference, Request


class TwinRouter:
    """The rules as `router.py` words them."""

    def __init__(self, router: Router, fleet: FleetReference) -> None:
        self.router, self.fleet = router, fleet
        engines = fleet.engines
        self.first = [e for e in engines if e.role != DECODE]
        self.decode = [e for e in engines if e.role == DECODE]
        self.turns = {"first": 0, "decode": 0}
        n = fleet.plan.trace.num_requests
        self.draws = np.random.default_rng(router.seed).random((2, n, 2))
        share = max(1, int(router.reserved_share * len(self.first)))
        short = [e for e in self.first if e.built.side is fleet.plan.sides[0]]
        self.own = {"priority": self.first[:share], "prompt-length": short}.get(router.rule, [])

    def choose_first(self, request: Request) -> Engine:
        candidates = self.that_take(self.first, request)
        self.see_answers(candidates, request.arrival_s)
        rule = self.router.rule
        if self.own:
            return self.by_group(candidates, request)
        if rule == "prefix-aware":
            chosen = self.by_prefix(candidates, request)
            chosen.sent_blocks |= set(request.blocks)
            return chosen
        return self.by_load(rule, "first", candidates, request)

    def choose_decode(self, request: Request, now: float) -> Engine:
        self.see_answers(self.decode, now)
        return self.by_load(self.router.decode_rule, "decode", self.decode, request)

    def that_take(self, engines: list[Engine], request: Request) -> list[Engine]:
        sides, takes = self.fleet.plan.sides, self.fleet.takes[:, request.number]
        return [
            e for e in engines if any(takes[p] for p, s in enumerate(sides) if e.built.side is s)
        ]

    def see_answers(self, engines: list[Engine], now: float) -> None:
        for engine in engines:
            engine.outstanding = [(r, when) for r, when in engine.outstanding if when > now]

    def by_load(self, rule: str, what: str, engines: list[Engine], request: Request) -> Engine:
        if rule == "round-robin":
            everyone = self.first if what == "first" else self.decode
            while everyone[self.turns[what] % len(everyone)] not in engines:
                self.turns[what] += 1
            self.turns[what] += 1
            return everyone[(self.turns[what] - 1) % len(everyone)]
        if rule == "least-tokens":
            return min(engines, key=lambda e: sum(r.prompt_tokens for r, _ in e.outstanding))
        if rule == "power-of-two" and len(engines) > 1:
            u, v = self.draws[0 if what == "first" else 1, request.number]
            one = engines[int(u * len(engines))]
            other = [e for e in engines if e is not one][int(v * (len(engines) - 1))]
            engines = sorted((one, other), key=lambda e: e.number)
        return fewest(engines)

    def by_prefix(self, engines: list[Engine], request: Request) -> Engine:
        loads = [len(e.outstanding) for e in engines]
        ahead = max(loads) - min(loads) > self.router.guard_requests
        if ahead and max(loads) > self.router.guard_ratio * min(loads):
            return fewest(engines)
        known = [leading(request.blocks, e.sent_blocks) for e in engines]
        return fewest([e for e, n in zip(engines, known, strict=True) if n == max(known)])

    def by_group(self, engines: list[Engine], request: Request) -> Engine:
        trace = self.fleet.plan.trace
        if self.router.rule == "priority":
            assert trace.priority is not None
            special = trace.priority[request.number] <= self.router.urgent_priority
        else:
            special = request.prompt_tokens <= self.router.short_tokens
        mine = [e for e in engines if (e in self.own) == special]
        others = [e for e in engines if e not in mine]
        idle = [e for e in others if not e.outstanding]
        if not mine:
            return fewest(others)
        if special and all(e.outstanding for e in mine) and idle:
            return idle[0]
        return fewest(mine)


def fewest(engines: list[Engine]) -> Engine:
    """The first with the fewest outstanding requests."""
    return min(engines, key=lambda e: len(e.outstanding))


def leading(blocks: list[int], known: set[int]) -> int:
    """Leading ones of `blocks` that are known."""
    return next((i for i, block in enumerate(blocks) if block not in known), len(blocks))
