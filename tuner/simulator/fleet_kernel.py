"""The loop over the replicas of a fleet: each runs as far as the others allow.

Exact, though every engine runs many steps at a time: a replica never passes a moment at which
something could still reach it. A request reaches its first replica `in_s` after its arrival at the
router; a decode replica `HOP` after the prefill's end at the earliest; and a load, of which the
prefill replica hears, ends at least `LATENCY` after it started. Where the router looks at loads it
decides when every replica that it looks at has run to the answers that can have reached it, and
none has run beyond what it decides. The order of requests is (time, number).
"""

from __future__ import annotations

import numpy as np

from profiler.compiled import compiled, inner
from tuner.simulator.fleet_arrays import (
    DECODE_RULE,
    DECODES,
    END,
    ENDED,
    HOP,
    IN_TURN,
    LATENCY,
    NEXT_ARRIVAL,
    OTHER_END,
    PREFILL_OUT,
    PREFILLS,
    RULE,
    SLOTS_FULL,
    SOONEST,
    START,
    STOPPED,
    FleetArrays,
    Settings,
)
from tuner.simulator.fleet_moves import find_ended, hand_over, note_run, route_arrival
from tuner.simulator.fleet_states import pick_state
from tuner.simulator.kernel import run_all
from tuner.simulator.state import ALL_DONE, NONE, PAUSED, STUCK
from tuner.simulator.transfer_arrays import UNTIL


@inner
def next_arrival_s(fleet: FleetArrays) -> float:
    """Arrival of the next request to be routed."""
    q, arrival_s = fleet.counts[NEXT_ARRIVAL], fleet.traffic.arrival_s
    return arrival_s[q] if q < arrival_s.size else np.inf


@inner
def next_end_s(fleet: FleetArrays, i: int) -> float:
    """No request of the first replica `i` that is not known ends by then, of those that it has. A
    prefill replica at rest may wait for blocks whose load has not even started."""
    replicas = fleet.replicas
    if replicas.status[i] == STUCK and replicas.num_unsent[i] > 0:
        return min(replicas.clock_s[i], fleet.times[START] + fleet.times[LATENCY])
    return replicas.clock_s[i]


@inner
def find_bounds(fleet: FleetArrays) -> None:
    """Writes START, END, OTHER_END and SOONEST."""
    replicas, times, prefills = fleet.replicas, fleet.times, fleet.counts[PREFILLS]
    find_ended(fleet)
    start_s = times[ENDED] + times[HOP]
    for i in range(fleet.counts[DECODES], replicas.pool.size):
        if replicas.num_given[i] > replicas.num_started[i]:
            start_s = min(start_s, replicas.clock_s[i])
    times[START], times[END], times[OTHER_END] = start_s, np.inf, np.inf
    fleet.counts[SOONEST] = NONE
    arrival_s = next_arrival_s(fleet)
    for i in range(prefills, fleet.counts[DECODES]):
        visible_s = arrival_s + fleet.columns.in_s[replicas.pool[i]]
        end_s = min(next_end_s(fleet, i), visible_s)
        if end_s < times[END]:
            times[OTHER_END], times[END] = times[END], end_s
            fleet.counts[SOONEST] = i
        elif end_s < times[OTHER_END]:
            times[OTHER_END] = end_s


@inner
def may_route(fleet: FleetArrays) -> bool:
    """Whether the router knows all that it looks at when the next request arrives."""
    arrival_s, replicas = next_arrival_s(fleet), fleet.replicas
    if arrival_s == np.inf or fleet.counts[RULE] == IN_TURN:
        return arrival_s < np.inf
    for i in range(fleet.counts[DECODES]):
        if next_end_s(fleet, i) + fleet.columns.out_s[replicas.pool[i]] < arrival_s:
            return False
    return True


@inner
def may_hand_over(fleet: FleetArrays) -> bool:
    """Whether no other prefill can end before the first that has ended, and the router knows all
    that it looks at then."""
    ended_s, replicas = fleet.times[ENDED], fleet.replicas
    if ended_s == np.inf or ended_s > fleet.times[END]:
        return False
    if fleet.counts[DECODE_RULE] == IN_TURN:
        return True
    now = ended_s + fleet.times[PREFILL_OUT]
    for i in range(fleet.counts[DECODES], replicas.pool.size):
        if replicas.clock_s[i] + fleet.columns.out_s[replicas.pool[i]] < now:
            return False
    return True


@inner
def limit_s(fleet: FleetArrays, i: int) -> float:
    """Replica `i` may do all schedule() calls before this."""
    times = fleet.times
    if i >= fleet.counts[DECODES]:
        return min(times[END], times[ENDED]) + times[HOP]
    visible_s = next_arrival_s(fleet) + fleet.columns.in_s[fleet.replicas.pool[i]]
    if i < fleet.counts[PREFILLS]:
        return visible_s
    others_s = times[OTHER_END] if i == fleet.counts[SOONEST] else times[END]
    start_s = min(times[START], others_s + times[HOP])
    return min(start_s + times[LATENCY], visible_s)


@inner
def send_requests(fleet: FleetArrays) -> int:
    """Route and hand over what may be. Returns PAUSED, STUCK when there was nothing, or
    SLOTS_FULL."""
    result = STUCK
    find_bounds(fleet)
    while may_route(fleet):
        if not route_arrival(fleet):
            return SLOTS_FULL
        result = PAUSED
    while may_hand_over(fleet):
        if not hand_over(fleet):
            return SLOTS_FULL
        result = PAUSED
    return result


@inner
def may_run(fleet: FleetArrays, i: int) -> bool:
    """Whether replica `i` has anything to do before its limit. Writes its UNTIL."""
    if i == fleet.counts[DECODES] - 1:  # what the decode replicas have done counts for the others
        find_bounds(fleet)
    until_s = limit_s(fleet, i)
    fleet.transfers.times[i, UNTIL] = until_s
    return fleet.replicas.clock_s[i] < until_s


@inner
def all_ended(fleet: FleetArrays) -> bool:
    """Whether every request has been routed and has ended wherever it was sent."""
    replicas = fleet.replicas
    for i in range(replicas.pool.size):
        if replicas.num_ended[i] < replicas.num_given[i]:
            return False
    return fleet.counts[NEXT_ARRIVAL] == fleet.traffic.arrival_s.size


@compiled
def run_fleet(fleet: FleetArrays, settings: Settings) -> int:
    """Run until every request has ended. Returns a status.

    After LOG_FULL, empty the log of replica STOPPED and call again. SLOTS_FULL and BLOCKS_MATTER
    ask for a fresh run with more slots or with identities; ENDLESS and STUCK are final. `run_all`
    is called in one place only, because its machine code is optimized anew wherever it is.
    """
    replicas, moved = fleet.replicas, PAUSED
    while moved == PAUSED:
        moved = send_requests(fleet)
        if moved == SLOTS_FULL:
            return SLOTS_FULL
        for i in range(replicas.pool.size - 1, -1, -1):  # the decode replicas first
            if not may_run(fleet, i):
                continue
            pool, jitter = replicas.pool[i], settings.jitter[i]
            state = pick_state(fleet, i, settings.rules[pool])
            status = run_all(state, settings.limits[pool], settings.params[pool], jitter)
            note_run(fleet, state, i, status)
            if status not in (ALL_DONE, STUCK, PAUSED):
                fleet.counts[STOPPED] = i
                return status
            moved = PAUSED
    return ALL_DONE if all_ended(fleet) else STUCK
