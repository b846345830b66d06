"""One replica's state out of the arrays of all: views, no copies."""

from __future__ import annotations

import numpy as np

from profiler.compiled import inner
from tuner.simulator.fleet_arrays import (
    BLOCKS,
    BUCKETS,
    CROSSING,
    FREE_ROWS,
    HEAP,
    HOLDERS,
    LOG,
    RING,
    SLOTS,
    TABLE,
    FleetArrays,
)
from tuner.simulator.pool_arrays import Pool, Prefixes
from tuner.simulator.state import ALL_DONE, SCHEDULE_AT, STUCK, VISIBLE, IntArray, Log, State, Tally
from tuner.simulator.transfer_arrays import NEXT_END, Rules, Transfers


def cut_pool(pool: Pool, a: IntArray, b: IntArray) -> Pool:
    """The KV blocks of the replica whose arrays are cut from `a` to `b`."""
    return Pool(
        pool.blocks[a[BLOCKS] : b[BLOCKS]],  # type: ignore[arg-type]
        pool.holders[a[HOLDERS] : b[HOLDERS]],  # type: ignore[arg-type]
        pool.buckets[a[BUCKETS] : b[BUCKETS]],
        pool.table[a[TABLE] : b[TABLE]],
        pool.free_rows[a[FREE_ROWS] : b[FREE_ROWS]],
        pool.cross_ends[2 * a[CROSSING] : 2 * b[CROSSING]],
    )


def cut_tally(tally: Tally, i: int, a: IntArray, b: IntArray) -> Tally:
    """The aggregates of replica `i`."""
    return Tally(
        tally.counts[i],
        tally.times[i],
        tally.crossing[a[CROSSING] : b[CROSSING]],
        tally.decodes[i],
        tally.slow[i],
        tally.late[i],
        tally.itl_limit_s,
        tally.heap[a[HEAP] : b[HEAP]],
        tally.ring[a[RING] : b[RING]],
    )


def cut_log(log: Log, num_classes: int, a: IntArray, b: IntArray) -> Log:
    """The log of the replica whose arrays are cut from `a` to `b`."""
    return Log(log.gap_s[a[LOG] : b[LOG]], log.weight[a[LOG] * num_classes : b[LOG] * num_classes])


def cut_prefixes(prefixes: Prefixes, a: int, b: int) -> Prefixes:
    """The prefixes of the replica whose requests are cut from `a` to `b`."""
    return Prefixes(
        prefixes.ids,
        prefixes.start[a:b],
        prefixes.shared[a:b],
        prefixes.private[a:b],
        prefixes.findable[a:b],
    )


def cut_transfers(moving: Transfers, rules: Rules, i: int, a: int, b: int) -> Transfers:
    """The transfers of replica `i`, whose slots are cut from `a` to `b`."""
    return Transfers(
        moving.moves[a:b],  # type: ignore[arg-type]
        moving.counts[i],
        moving.times[i],
        moving.released[a:b],
        moving.released_s[a:b],
        moving.started[a:b],
        rules,
    )


pick_pool, pick_tally, pick_log = inner(cut_pool), inner(cut_tally), inner(cut_log)
pick_prefixes, pick_transfers = inner(cut_prefixes), inner(cut_transfers)


@inner
def pick_state(fleet: FleetArrays, i: int, rules: Rules) -> State:
    """The state of replica `i`, as `run_all` takes it."""
    flat, a, b = fleet.flat, fleet.at[i], fleet.at[i + 1]
    p, q = a[SLOTS], b[SLOTS]
    return State(
        flat.requests[p:q],  # type: ignore[arg-type]
        flat.progress[p:q],  # type: ignore[arg-type]
        flat.links[p:q],  # type: ignore[arg-type]
        pick_tally(flat.tally, i, a, b),
        pick_log(flat.log, flat.tally.itl_limit_s.size, a, b),
        flat.steps,
        flat.record,
        pick_prefixes(flat.prefixes, a[HOLDERS], b[HOLDERS]),
        pick_pool(flat.pool, a, b),
        None,
        pick_transfers(fleet.transfers, rules, i, p, q),
    )


@inner
def find_clock(fleet: FleetArrays, i: int) -> float:
    """When the next schedule() call of replica `i` is, as far as is known; infinite for none."""
    status = fleet.replicas.status[i]
    at = fleet.flat.tally.times[i, SCHEDULE_AT]
    if status == ALL_DONE:
        return np.inf
    if status != STUCK:
        return at
    slot = fleet.at[i, SLOTS] + fleet.flat.tally.counts[i, VISIBLE]
    next_s = np.inf
    if slot < fleet.at[i + 1, SLOTS]:
        next_s = fleet.flat.requests.visible_s[slot]
    return max(at, min(next_s, fleet.transfers.times[i, NEXT_END]))
