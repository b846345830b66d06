"""Building the state of an engine with a KV connector."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tuner.simulator.memory import Inputs, allocate, as_records, ints
from tuner.simulator.state import NONE, FloatArray, IntArray, Limits, State
from tuner.simulator.transfer_arrays import (
    HELD_HEAD,
    HELD_TAIL,
    KV_HEAD,
    KV_TAIL,
    LINK_AT,
    LINK_HEAD,
    LINK_TAIL,
    LOCAL,
    NEXT_END,
    NUM_TRANSFER_COUNTS,
    NUM_TRANSFER_TIMES,
    REMOTE,
    UNTIL,
    Moves,
    Rules,
    Transfers,
)

ROLES = ("kv_producer", "kv_consumer", "kv_both")
"""vLLM's `kv_role`: hands KV over, loads it, or both"""

FAILURE_POLICIES = ("fail", "recompute")
"""vLLM's `kv_load_failure_policy`; the first is its default"""


class Script(NamedTuple):
    """What moves for each request."""

    remote: IntArray
    """(N,) 1: the prompt's KV is loaded from another engine"""
    hands_over: IntArray
    """(N,) 1: the blocks stay after the end until they are sent"""
    fails: IntArray
    """(N,) 1: the load fails"""
    duration_s: FloatArray
    """(N,) see `Moves.duration_s`"""


def role_rules(role: str, policy: str, overlapped: bool) -> Rules:
    """The connector's rules for `kv_role` and `kv_load_failure_policy`, with a link on which only
    the scripted durations count.

    Mirrors `Scheduler.__init__` (defer_block_free) of `vllm/v1/core/sched/scheduler.py` and
    `KVConnectorBase_V1.requires_kv_delivery` of vLLM 0.32.
    """
    return Rules(
        defers=overlapped and role != "kv_producer",
        drops_output=role != "kv_consumer",
        recomputes=policy == "recompute",
        shared=False,
        latency_s=0.0,
        bytes_per_s=np.inf,
        block_bytes=0.0,
        overlap_layers=1,
        lookahead_s=np.inf,
    )


def build_transfers(script: Script, rules: Rules) -> Transfers:
    """No transfer has started."""
    n = script.remote.size
    counts = ints(NUM_TRANSFER_COUNTS)
    counts[[KV_HEAD, KV_TAIL, HELD_HEAD, HELD_TAIL, LINK_HEAD, LINK_TAIL]] = NONE
    times = np.zeros(NUM_TRANSFER_TIMES)
    times[[NEXT_END, UNTIL]], times[LINK_AT] = np.inf, 0.0
    moves = Moves(
        stage=np.where(script.remote == 1, REMOTE, LOCAL).astype(np.int64),
        hands_over=script.hands_over.astype(np.int64),
        fails=script.fails.astype(np.int64),
        duration_s=script.duration_s.astype(np.float64),
        hit_tokens=ints(n),
        early_s=np.zeros(n),
        first_kv_s=np.full(n, np.nan),
        left_bytes=np.zeros(n),
        start_s=np.full(n, np.nan),
        end_s=np.full(n, np.inf),
        fed_step=ints(n, NONE),
        prev=ints(n, NONE),
        next=ints(n, NONE),
        link_prev=ints(n, NONE),
        link_next=ints(n, NONE),
    )
    return Transfers(as_records(moves), counts, times, ints(n), np.empty(n), ints(n), rules)


def allocate_engine(
    inputs: Inputs, limits: Limits, num_kv_blocks: int, itl_limit_s: FloatArray
) -> State:
    """`memory.allocate` with room for block tables of requests that load or are being sent, which
    hold no slot. Everyone with a table holds a block of its own, so there is one for each block,
    and a spare one for `find_hits`."""
    return allocate(
        inputs, limits._replace(max_active=num_kv_blocks + 1), num_kv_blocks, itl_limit_s
    )
