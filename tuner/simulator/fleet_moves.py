"""What passes between the replicas of a fleet: requests, and the ends of transfers."""

from __future__ import annotations

import numpy as np

from profiler.compiled import inner
from tuner.simulator.fleet_arrays import (
    DECODES,
    ENDED,
    ENDED_AT,
    HOLDERS,
    HOP,
    NEXT_ARRIVAL,
    PREFILL_OUT,
    PREFILLS,
    SHARED,
    SLOTS,
    FleetArrays,
)
from tuner.simulator.fleet_router import choose_decode, choose_first
from tuner.simulator.fleet_states import find_clock
from tuner.simulator.state import NONE, SCHEDULE_AT, State
from tuner.simulator.transfer_arrays import NEXT_END, NUM_RELEASED, NUM_STARTED, Transfers


@inner
def route_arrival(fleet: FleetArrays) -> bool:
    """Send the next request to its first replica; False when that has no slot left."""
    q = fleet.counts[NEXT_ARRIVAL]
    arrival_s = fleet.traffic.arrival_s[q]
    i = choose_first(fleet, q, arrival_s)
    slot = give(fleet, q, i, arrival_s + fleet.columns.in_s[fleet.replicas.pool[i]], arrival_s)
    fleet.course.first[q], fleet.course.first_slot[q] = i, slot
    fleet.counts[NEXT_ARRIVAL] = q + 1
    return slot != NONE


@inner
def hand_over(fleet: FleetArrays) -> bool:
    """Send the request of the first prefill that has ended to a decode replica; False when that has
    no slot left."""
    p, ended_s = fleet.counts[ENDED_AT], fleet.times[ENDED]
    q = ended_request(fleet, p)
    i = choose_decode(fleet, q, ended_s + fleet.times[PREFILL_OUT])
    visible_s = ended_s + fleet.times[HOP]
    slot = give(fleet, q, i, visible_s, visible_s)
    if slot == NONE:
        return False
    moves, there = fleet.transfers.moves, fleet.at[p, SLOTS] + fleet.course.first_slot[q]
    moves.early_s[fleet.at[i, SLOTS] + slot] = ended_s - moves.first_kv_s[there]
    fleet.course.decode[q] = i
    fleet.replicas.num_handed[p] += 1
    find_ended(fleet)
    return True


@inner
def give(fleet: FleetArrays, q: int, i: int, visible_s: float, key_s: float) -> int:
    """Request `q` reaches the scheduler of replica `i`; returns its slot, NONE when all are taken.

    Under priorities, requests of one replica with equal `key_s` have equal rights.
    """
    replicas, traffic, mine = fleet.replicas, fleet.traffic, fleet.flat.requests
    slot, pool = replicas.num_given[i], replicas.pool[i]
    at = fleet.at[i, SLOTS] + slot
    if at + 1 >= fleet.at[i + 1, SLOTS]:
        return NONE
    fleet.slots.request[at] = q
    mine.visible_s[at], mine.prompt_tokens[at] = visible_s, traffic.prompt_tokens[q]
    mine.max_output[at], mine.klass[at] = fleet.columns.max_output[pool, q], traffic.klass[q]
    order, num = slot, traffic.arrival_s.size
    if slot > 0 and replicas.last_key_s[i] == key_s:
        order = mine.urgency[at - 1] % num
    mine.urgency[at] = traffic.rank[q] * num + order
    if i >= fleet.counts[DECODES]:
        fleet.transfers.moves.fails[at] = traffic.fails[q]
    give_prefix(fleet, q, i, slot)
    replicas.last_key_s[i] = key_s
    replicas.num_given[i] = slot + 1
    replicas.requests[i] += 1
    replicas.tokens[i] += traffic.prompt_tokens[q]
    replicas.clock_s[i] = find_clock(fleet, i)
    return slot


@inner
def give_prefix(fleet: FleetArrays, q: int, i: int, slot: int) -> None:
    """Which blocks of the prompt of `q`, in `slot` of replica `i`, others have too."""
    at, pool, mine = fleet.at[i, HOLDERS] + slot, fleet.replicas.pool[i], fleet.flat.prefixes
    if at >= fleet.at[i + 1, HOLDERS]:
        return
    mine.start[at], mine.private[at] = fleet.traffic.prefix_start[q], fleet.columns.private[pool, q]
    mine.shared[at] = mine.findable[at] = fleet.columns.shared[pool, q]


@inner
def note_run(fleet: FleetArrays, state: State, i: int, status: int) -> None:
    """Replica `i`, whose state is given, has run: tell the others."""
    fleet.replicas.status[i] = status
    if state.transfers is not None:
        note_ends(fleet, state.transfers, i)
        if i >= fleet.counts[DECODES]:
            note_loads(fleet, state.transfers, i, state.tally.times[SCHEDULE_AT])
    fleet.replicas.clock_s[i] = find_clock(fleet, i)


@inner
def note_ends(fleet: FleetArrays, transfers: Transfers, i: int) -> None:
    """Requests of replica `i` have ended. Those of one prefill step are handed over in order of
    their numbers, which is that of their slots."""
    replicas, released, last = fleet.replicas, transfers.released, transfers.counts[NUM_RELEASED]
    first = replicas.num_ended[i]
    replicas.num_ended[i] = last
    if i < fleet.counts[PREFILLS] or i >= fleet.counts[DECODES]:
        return
    for e in range(first, last):
        slot, when = released[e], transfers.released_s[e]
        fleet.course.prefill_s[fleet.slots.request[fleet.at[i, SLOTS] + slot]] = when
        replicas.num_unsent[i] += 1
        while e > first and transfers.released_s[e - 1] == when and released[e - 1] > slot:
            released[e] = released[e - 1]
            e -= 1
        released[e] = slot


@inner
def note_loads(fleet: FleetArrays, transfers: Transfers, i: int, now: float) -> None:
    """Loads of the decode replica `i` have started, up to `now`: when they end. On a shared link
    each postpones the others."""
    replicas, at = fleet.replicas, fleet.at[i, SLOTS]
    first, last = replicas.num_started[i], transfers.counts[NUM_STARTED]
    if first == last:
        return
    replicas.num_started[i] = last
    moves, loading, kept = transfers.moves, fleet.slots.loading, 0
    if fleet.counts[SHARED] == 1:
        for j in range(replicas.num_loading[i]):
            slot = loading[at + j]
            tell_end(fleet, fleet.slots.request[at + slot], moves.end_s[slot])
            if moves.end_s[slot] > now:
                loading[at + kept] = slot
                kept += 1
    for e in range(first, last):
        slot = transfers.started[e]
        tell_end(fleet, fleet.slots.request[at + slot], moves.end_s[slot])
        if fleet.counts[SHARED] == 1 and moves.end_s[slot] > now:
            loading[at + kept] = slot
            kept += 1
    replicas.num_loading[i] = kept


@inner
def tell_end(fleet: FleetArrays, q: int, end_s: float) -> None:
    """The prefill replica of `q` learns that its blocks will have been sent by `end_s`."""
    i = fleet.course.first[q]
    at = fleet.at[i, SLOTS] + fleet.course.first_slot[q]
    moves, times = fleet.transfers.moves, fleet.transfers.times
    if np.isinf(moves.end_s[at]):
        fleet.replicas.num_unsent[i] -= 1
    moves.end_s[at] = end_s
    times[i, NEXT_END] = min(times[i, NEXT_END], end_s)
    fleet.replicas.clock_s[i] = find_clock(fleet, i)


@inner
def ended_request(fleet: FleetArrays, i: int) -> int:
    """The first request that prefill replica `i` has ended and no decode replica has."""
    at = fleet.at[i, SLOTS]
    slot = fleet.transfers.released[at + fleet.replicas.num_handed[i]]
    return fleet.slots.request[at + slot]


@inner
def find_ended(fleet: FleetArrays) -> None:
    """Writes ENDED and ENDED_AT: of all such requests the first one, by time, then by number."""
    replicas, best, best_s, first = fleet.replicas, NONE, np.inf, 0
    for i in range(fleet.counts[PREFILLS], fleet.counts[DECODES]):
        if replicas.num_handed[i] == replicas.num_ended[i]:
            continue
        when = fleet.transfers.released_s[fleet.at[i, SLOTS] + replicas.num_handed[i]]
        if when > best_s:
            continue
        q = ended_request(fleet, i)
        if when < best_s or q < first:
            best, best_s, first = i, when, q
    fleet.counts[ENDED_AT], fleet.times[ENDED] = best, best_s
