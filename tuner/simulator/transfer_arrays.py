"""Arrays of KV transfers between engines: what a KV connector adds to an engine's state.

N is the number of requests. Without a connector `State.transfers` is None and the kernels are
compiled without all of this.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Where the KV of a request's prompt is (`Moves.stage`).
LOCAL = 0  # nothing moves
REMOTE = 1  # on another engine; its load has not started
LOADING = 2  # WAITING_FOR_REMOTE_KVS: blocks are held, the transfer runs
ARRIVED = 3  # the worker has reported the end of the transfer
READY = 4  # the scheduler has seen that; the request holds blocks and waits for a slot
LOST = 5  # the load failed and left nothing: an ordinary request in the queue of the others
HELD = 6  # finished here, blocks are held until they have been sent
SENT = 7
FAILED = 8  # the load failed, and the request with it

# Indices of Transfers.counts.
KV_HEAD = 0  # queue of waiting requests that hold KV (kv_holding_waiting)
KV_TAIL = 1
NUM_WITH_KV = 2  # its length
HELD_HEAD = 3  # finished requests whose blocks are being sent
HELD_TAIL = 4
NUM_RELEASED = 5  # entries of `Transfers.released`
NUM_STARTED = 6  # entries of `Transfers.started`
WAS_LATE = 7  # 1 when the last step left a decode out
LINK_HEAD = 8  # loads on a shared link with bytes left, by how many
LINK_TAIL = 9
NUM_ON_LINK = 10  # its length
NUM_TRANSFER_COUNTS = 11

# Indices of Transfers.times.
NEXT_END = 0  # earliest known end of a transfer that has not been reported
UNTIL = 1  # schedule() calls from here on are left to the next call of the kernel
LINK_AT = 2  # up to here `Moves.left_bytes` is counted down
NUM_TRANSFER_TIMES = 3


class Moves(NamedTuple):
    """Per request; the first four and `early_s` are inputs."""

    stage: IntArray
    """(N,) see the stages above; REMOTE at first where the prompt's KV is on another engine"""
    hands_over: IntArray
    """(N,) 1: the blocks stay after the end until they are sent (request_finished)"""
    fails: IntArray
    """(N,) 1: its load fails"""
    duration_s: FloatArray
    """(N,) scripted part of its transfer's duration, seconds; infinite where the other side tells
    the end"""
    hit_tokens: IntArray
    """(N,) tokens found in the own prefix cache when the load started"""
    early_s: FloatArray
    """(N,) how long before the end of its prefill KV of it could leave already; an input, 0 where
    nothing leaves before (`Rules.overlap_layers` is 1)"""
    first_kv_s: FloatArray
    """(N,) on the prefill side: when the first layer of its first chunk was computed; NaN before"""
    left_bytes: FloatArray
    """(N,) LOADING: bytes that the link has not moved at LINK_AT"""
    start_s: FloatArray
    """(N,) the schedule() call that started the load; NaN before"""
    end_s: FloatArray
    """(N,) when the transfer is over; infinite before that is known"""
    fed_step: IntArray
    """(N,) PREFILLING: number of the last step with a chunk of it"""
    prev: IntArray
    """(N,) the queue of those that hold KV, or the list of the finished ones that do"""
    next: IntArray
    """(N,) the same"""
    link_prev: IntArray
    """(N,) the loads on a shared link"""
    link_next: IntArray
    """(N,) the same"""


class Transfers(NamedTuple):
    """Written by `transfers.py`, `remote.py` and `link.py`."""

    moves: Moves
    counts: IntArray
    """(NUM_TRANSFER_COUNTS,) see the indices above"""
    times: FloatArray
    """(NUM_TRANSFER_TIMES,) seconds"""
    released: IntArray
    """(N,) requests that have ended, failed ones too, in the order in which the scheduler knew"""
    released_s: FloatArray
    """(N,) when each of them ended, seconds"""
    started: IntArray
    """(N,) requests whose load started, in order"""
    rules: Rules


class Rules(NamedTuple):
    """Settings of the connector and of the link into this engine."""

    defers: bool
    """blocks of a request in flight cannot be freed: a consumer's asynchronous scheduling"""
    drops_output: bool
    """the output in flight of a preempted request is dropped: a producer (requires_kv_delivery)"""
    recomputes: bool
    """kv_load_failure_policy is "recompute", not "fail" """
    shared: bool
    """concurrent loads share the link's bandwidth equally; else each has all of it"""
    latency_s: float
    """from the last byte to the report"""
    bytes_per_s: float
    block_bytes: float
    overlap_layers: int
    """layers whose KV leaves one by one while the prompt is computed; 1: all after it"""
    lookahead_s: float
    """from a finish here to the earliest end of its transfer; infinite when scripted"""
