"""The router's rules, compiled; `router.py` says what they mean."""

from __future__ import annotations

from profiler.compiled import inner
from tuner.simulator.fleet_arrays import (
    BY_GROUP,
    DECODE_RULE,
    DECODE_TURN,
    DECODES,
    FEWEST_TOKENS,
    IN_TURN,
    LONGEST_PREFIX,
    RULE,
    SLOTS,
    TURN,
    TWO_DRAWN,
    FleetArrays,
)
from tuner.simulator.state import NONE, FloatArray, IntArray


@inner
def choose_first(fleet: FleetArrays, q: int, now: float) -> int:
    """The first replica of the request `q`, which arrives at `now`."""
    hi, rule = fleet.counts[DECODES], fleet.counts[RULE]
    open_replicas(fleet, q, 0, hi)
    if rule == IN_TURN:
        return next_in_turn(fleet, 0, hi, TURN)
    see_answers(fleet, 0, hi, now)
    if rule == BY_GROUP:
        return of_group(fleet, q, hi)
    if rule == LONGEST_PREFIX:
        follow_prefix(fleet, q, hi)
        i = least_loaded(fleet, fleet.replicas.requests, 0, hi)
        keep_prefix(fleet, q, i)
        return i
    return by_load(fleet, rule, 0, hi, fleet.routing.draws[0, q])


@inner
def choose_decode(fleet: FleetArrays, q: int, now: float) -> int:
    """The decode replica of the request `q`, whose prefill's answer is there at `now`."""
    lo, hi, rule = fleet.counts[DECODES], fleet.replicas.pool.size, fleet.counts[DECODE_RULE]
    open_replicas(fleet, q, lo, hi)
    if rule == IN_TURN:
        return next_in_turn(fleet, lo, hi, DECODE_TURN)
    see_answers(fleet, lo, hi, now)
    return by_load(fleet, rule, lo, hi, fleet.routing.draws[1, q])


@inner
def open_replicas(fleet: FleetArrays, q: int, lo: int, hi: int) -> None:
    """Among the replicas lo .. hi - 1, those that accept `q`. Writes `Routing.open`."""
    for i in range(lo, hi):
        fleet.routing.open[i] = fleet.columns.takes[fleet.replicas.pool[i], q]


@inner
def see_answers(fleet: FleetArrays, lo: int, hi: int, now: float) -> None:
    """The router has seen what replicas lo .. hi - 1 answered by `now`."""
    replicas = fleet.replicas
    for i in range(lo, hi):
        at, out_s = fleet.at[i, SLOTS], fleet.columns.out_s[replicas.pool[i]]
        e = replicas.num_answered[i]
        while e < replicas.num_ended[i] and fleet.transfers.released_s[at + e] + out_s <= now:
            q = fleet.slots.request[at + fleet.transfers.released[at + e]]
            replicas.requests[i] -= 1
            replicas.tokens[i] -= fleet.traffic.prompt_tokens[q]
            e += 1
        replicas.num_answered[i] = e


@inner
def next_in_turn(fleet: FleetArrays, lo: int, hi: int, turn: int) -> int:
    """The first open replica from counts[turn] on, round and round; the turn goes on behind it."""
    i = lo + fleet.counts[turn]
    while not fleet.routing.open[i]:
        i = i + 1 if i + 1 < hi else lo
    fleet.counts[turn] = i + 1 - lo if i + 1 < hi else 0
    return i


@inner
def by_load(fleet: FleetArrays, rule: int, lo: int, hi: int, draws: FloatArray) -> int:
    """The open replica with the least load, of all or of two drawn ones."""
    replicas, is_open = fleet.replicas, fleet.routing.open
    if rule == FEWEST_TOKENS:
        return least_loaded(fleet, replicas.tokens, lo, hi)
    if rule == TWO_DRAWN:
        num = 0
        for i in range(lo, hi):
            num += is_open[i]
        first = int(draws[0] * num)
        second = int(draws[1] * (num - 1))
        second += second >= first
        k = 0
        for i in range(lo, hi):
            if is_open[i]:
                is_open[i] = k in (first, second)
                k += 1
    return least_loaded(fleet, replicas.requests, lo, hi)


@inner
def least_loaded(fleet: FleetArrays, load: IntArray, lo: int, hi: int) -> int:
    """The open replica with the least `load`, the first of several; NONE when none is open."""
    best = NONE
    for i in range(lo, hi):
        if fleet.routing.open[i] and (best == NONE or load[i] < load[best]):
            best = i
    return best


@inner
def of_group(fleet: FleetArrays, q: int, hi: int) -> int:
    """The least loaded replica of the request's group; a request of the first group goes to an idle
    one of the other when all of its own are busy, any to the other when its own refuse it."""
    group, load = fleet.traffic.group[q], fleet.replicas.requests
    own, other = NONE, NONE
    for i in range(hi):
        if not fleet.routing.open[i]:
            continue
        if fleet.replicas.group[i] == group:
            own = i if own == NONE or load[i] < load[own] else own
        else:
            other = i if other == NONE or load[i] < load[other] else other
    if own == NONE:
        return other
    spills = group == 0 and load[own] > 0 and other != NONE and load[other] == 0
    return other if spills else own


@inner
def follow_prefix(fleet: FleetArrays, q: int, hi: int) -> None:
    """Close all replicas but those that were sent the longest part of the prompt of `q`, unless the
    load is too uneven."""
    is_open, load, routing = fleet.routing.open, fleet.replicas.requests, fleet.routing
    most, least = NONE, least_loaded(fleet, load, 0, hi)
    for i in range(hi):
        if is_open[i] and (most == NONE or load[i] > load[most]):
            most = i
    uneven = load[most] - load[least] > routing.guard_requests
    if uneven and load[most] > routing.guard_ratio * load[least]:
        return
    start = fleet.traffic.prefix_start[q]
    for b in range(start, start + fleet.traffic.num_alike[q]):
        row, known = routing.ids[b], False
        for i in range(hi):
            known = known or (is_open[i] and routing.sent[row, i])
        if not known:
            return
        for i in range(hi):
            is_open[i] = is_open[i] and routing.sent[row, i]


@inner
def keep_prefix(fleet: FleetArrays, q: int, i: int) -> None:
    """Replica `i` is sent the prompt of `q`."""
    start = fleet.traffic.prefix_start[q]
    for b in range(start, start + fleet.traffic.num_alike[q]):
        fleet.routing.sent[fleet.routing.ids[b], i] = True
