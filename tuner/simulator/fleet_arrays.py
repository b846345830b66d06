"""Arrays of a fleet: the states of all its replicas on end, and what the router knows.

R is the number of replicas, numbered over the aggregated pools, the prefill pool, the decode pool;
P of pools, in the same order; K of requests that some pool takes, by arrival. The first replica of
a request is an aggregated or a prefill one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from profiler.latency.params import StepTimeParams
from tuner.simulator.state import FloatArray, IntArray, Limits, State
from tuner.simulator.transfer_arrays import Rules, Transfers

BoolArray = npt.NDArray[np.bool_]

MAX_POOLS = 8
"""of one fleet: their settings are handed to the kernel as tuples of this length"""

# Columns of FleetArrays.at: which arrays of `State` are cut where.
SLOTS = 0  # a slot for each request that a replica may get, and a last one that stays empty
HEAP = 1
HOLDERS = 2
BLOCKS = 3
BUCKETS = 4
TABLE = 5
FREE_ROWS = 6
CROSSING = 7
RING = 8
LOG = 9
NUM_CUTS = 10

# Indices of FleetArrays.counts.
NEXT_ARRIVAL = 0  # first request that has not been routed
TURN = 1  # first replica of the next turn
DECODE_TURN = 2  # decode replica of the next turn, counted from the first one
PREFILLS = 3  # number of the first prefill replica
DECODES = 4  # number of the first decode replica
RULE = 5  # see below
DECODE_RULE = 6
SHARED = 7  # 1: loads of one decode replica share the link
STOPPED = 8  # replica that the kernel returned for
ENDED_AT = 9  # prefill replica of ENDED
SOONEST = 10  # prefill replica of END
NUM_FLEET_COUNTS = 11

# Indices of FleetArrays.times.
HOP = 0  # from a prefill's token to the request's arrival at a decode replica
PREFILL_OUT = 1  # from a prefill's token to its arrival at the router
LATENCY = 2  # from the start of a load to its end, at least
START = 3  # no load that is not known starts before
ENDED = 4  # end of the first prefill that no decode replica has been given
END = 5  # no prefill that is not known ends by then
OTHER_END = 6  # the same without the replica SOONEST
NUM_FLEET_TIMES = 7

# Rules of the router.
IN_TURN = 0
FEWEST_REQUESTS = 1
FEWEST_TOKENS = 2
TWO_DRAWN = 3
LONGEST_PREFIX = 4
BY_GROUP = 5

SLOTS_FULL = 6
"""status of `run_fleet`, beside those of `run_all`: run again with more slots"""


class Replicas(NamedTuple):
    """Per replica."""

    pool: IntArray
    """(R,)"""
    group: IntArray
    """(R,) rule BY_GROUP: 0 for the first group, 1 for the other"""
    status: IntArray
    """(R,) of the last call of its kernel; STUCK at first"""
    clock_s: FloatArray
    """(R,) when its next schedule() call is, as far as is known; infinite for none"""
    num_given: IntArray
    """(R,) requests it was sent: its filled slots"""
    num_ended: IntArray
    """(R,) entries of `Transfers.released` that the fleet has looked at"""
    num_answered: IntArray
    """(R,) of these, those whose answer the router has seen"""
    num_handed: IntArray
    """(R,) prefill: of these, those that a decode replica has been given"""
    num_started: IntArray
    """(R,) decode: entries of `Transfers.started` that the fleet has looked at"""
    num_loading: IntArray
    """(R,) decode: filled entries of `Slots.loading`"""
    num_unsent: IntArray
    """(R,) prefill: requests whose blocks it holds until a time that is not known"""
    requests: IntArray
    """(R,) outstanding requests, as the router knows"""
    tokens: IntArray
    """(R,) their prompt tokens"""
    last_key_s: FloatArray
    """(R,) what the last request it was sent came in order of: see `fleet_moves.give`"""


class Traffic(NamedTuple):
    """Per request; inputs."""

    arrival_s: FloatArray
    """(K,) when it reaches the router, seconds; sorted"""
    prompt_tokens: IntArray
    """(K,)"""
    klass: IntArray
    """(K,) request class"""
    rank: IntArray
    """(K,) dense rank of its priority"""
    fails: IntArray
    """(K,) 1: its load fails"""
    group: IntArray
    """(K,) rule BY_GROUP: the group of replicas it belongs to"""
    prefix_start: IntArray
    """(K,) where its prefix blocks start in `Prefixes.ids` and in `Routing.ids`"""
    num_alike: IntArray
    """(K,) leading prefix blocks that another request has too"""


class Course(NamedTuple):
    """Per request: what became of it; written by `fleet_moves.py`."""

    first: IntArray
    """(K,) its first replica"""
    first_slot: IntArray
    """(K,) and its slot there"""
    decode: IntArray
    """(K,) its decode replica; NONE for none"""
    prefill_s: FloatArray
    """(K,) when a prefill replica made its token; NaN for none"""


class Columns(NamedTuple):
    """Per pool; inputs."""

    in_s: FloatArray
    """(P,) from the router to the scheduler, seconds"""
    out_s: FloatArray
    """(P,) from a token to the router, seconds"""
    takes: BoolArray
    """(P, K) the pool accepts the request; for the prefill pool, the decode pool does too"""
    max_output: IntArray
    """(P, K) see `Requests`"""
    shared: IntArray
    """(P, K) see `Prefixes`"""
    private: IntArray
    """(P, K) see `Prefixes`"""


class Slots(NamedTuple):
    """Per slot of each replica, cut like the requests of the states."""

    request: IntArray
    """request in the slot"""
    loading: IntArray
    """decode: slots whose load is not over and shares the link"""


class Routing(NamedTuple):
    """What the rules read."""

    open: BoolArray
    """(R,) replicas among which the request at hand is placed; scratch"""
    draws: FloatArray
    """(2, K, 2) TWO_DRAWN: for the first and the decode replica, two numbers in [0, 1)"""
    ids: IntArray
    """(H,) LONGEST_PREFIX: row of `sent` of each prefix block that several requests have"""
    sent: BoolArray
    """(rows, R) whether the replica was sent the prefix block"""
    guard_requests: int
    guard_ratio: float


class FleetArrays(NamedTuple):
    """All of a fleet."""

    flat: State
    """of all replicas: arrays of different lengths on end, cut at `at`; others as (R, ...)"""
    transfers: Transfers
    """the same"""
    at: IntArray
    """(R + 1, NUM_CUTS) replica i has entries at[i] .. at[i + 1] - 1"""
    replicas: Replicas
    traffic: Traffic
    course: Course
    columns: Columns
    slots: Slots
    routing: Routing
    counts: IntArray
    """(NUM_FLEET_COUNTS,) see the indices above"""
    times: FloatArray
    """(NUM_FLEET_TIMES,) seconds"""


class Settings(NamedTuple):
    """What the engines of each pool are run with."""

    limits: tuple[Limits, ...]
    """MAX_POOLS of them; those beyond the pools are not read"""
    rules: tuple[Rules, ...]
    """the same"""
    params: tuple[StepTimeParams, ...]
    """the same"""
    jitter: FloatArray
    """(R, J) a sequence of factors for each replica"""
