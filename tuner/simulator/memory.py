"""Allocating the simulator's state."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from profiler.steps import AFTER_IDLE
from tuner.simulator.image_arrays import Vision
from tuner.simulator.log_room import MAX_LOGGED, empty_record, empty_steps
from tuner.simulator.pool_arrays import UNHASHED, Blocks, Holders, Pool, Prefixes
from tuner.simulator.state import (
    ENDING_BEFORE,
    ENDING_NOW,
    FOLLOWS,
    FREE_BLOCKS,
    FREE_HEAD,
    FREE_TAIL,
    NONE,
    NUM_COUNTS,
    NUM_FREE_ROWS,
    NUM_SENT,
    NUM_TIMES,
    PART_HEAD,
    PART_TAIL,
    RUN_HEAD,
    RUN_TAIL,
    STACK_HEAD,
    WORST_OWN,
    FloatArray,
    IntArray,
    Limits,
    Links,
    Log,
    Progress,
    Requests,
    State,
    Tally,
)
from tuner.simulator.transfer_arrays import Transfers


class Inputs(NamedTuple):
    """What is known of the traffic."""

    requests: Requests
    prefixes: Prefixes
    vision: Vision | None
    transfers: Transfers | None = None


def allocate(inputs: Inputs, limits: Limits, num_kv_blocks: int, itl_limit_s: FloatArray) -> State:
    """Fresh state for the requests (N) of `inputs` and the classes of `itl_limit_s` (C)."""
    requests = inputs.requests
    n, classes = requests.visible_s.size, itl_limit_s.size
    counts = ints(NUM_COUNTS)
    lists = (RUN_HEAD, RUN_TAIL, PART_HEAD, PART_TAIL, STACK_HEAD, ENDING_NOW, ENDING_BEFORE)
    counts[[*lists, WORST_OWN]] = NONE
    counts[FREE_BLOCKS] = num_kv_blocks - 1
    counts[NUM_SENT] = np.isfinite(requests.visible_s).sum()
    counts[FOLLOWS] = AFTER_IDLE
    pool = build_pool(requests, limits, num_kv_blocks)
    if limits.identities:
        counts[FREE_HEAD], counts[FREE_TAIL] = 1, num_kv_blocks - 1
        counts[NUM_FREE_ROWS] = pool.free_rows.size
    longest = int(requests.max_output.max(initial=1))
    room = min(4 * n, MAX_LOGGED) + 2 * longest + limits.max_active + 1024
    return State(
        requests=requests,
        progress=build_progress(n),
        links=build_links(n),
        tally=Tally(
            counts=counts,
            times=np.zeros(NUM_TIMES),
            crossing=np.zeros(limits.block_size, dtype=np.int64),
            decodes=np.zeros(classes, dtype=np.int64),
            slow=np.zeros(classes, dtype=np.int64),
            late=np.zeros(classes, dtype=np.int64),
            itl_limit_s=itl_limit_s.astype(np.float64),
            heap=ints(n if limits.priority else 0),
            ring=ints(longest + 2, NONE),
        ),
        log=Log(np.empty(room), np.empty(room * classes, dtype=np.int64)),
        steps=empty_steps(min(64 * n, 1 << 22) + 4096 if limits.timeline else 0),
        record=empty_record(8 * n + 4096 if limits.record_from_s < np.inf else 0),
        prefixes=inputs.prefixes,
        pool=pool,
        vision=inputs.vision,
        transfers=inputs.transfers,
    )


T = TypeVar("T", bound=Any)


def ints(size: int, fill: int = 0) -> IntArray:
    """`size` integers."""
    return np.full(size, fill, dtype=np.int64)


def build_progress(n: int) -> Progress:
    """`n` requests that have not been seen yet."""
    return as_records(
        Progress(
            phase=ints(n),
            computed=ints(n),
            outputs=ints(n),
            chunk=ints(n),
            end_clock=ints(n),
            slow_at_join=ints(n),
            num_slow=ints(n),
            last_token_s=np.full(n, np.nan),
            admitted_s=np.full(n, np.nan),
            first_token_s=np.full(n, np.nan),
            finish_s=np.full(n, np.nan),
        )
    )


def build_links(n: int) -> Links:
    """Empty lists over `n` requests."""
    return as_records(Links(*(ints(n, NONE) for _ in Links._fields)))


def build_pool(requests: Requests, limits: Limits, num_kv_blocks: int) -> Pool:
    """A pool of free blocks in order of their numbers; empty when blocks are only counted."""
    n, b = requests.visible_s.size, num_kv_blocks
    if not limits.identities:
        n = b = 0
    number = np.arange(b, dtype=np.int64)
    longest = int((requests.prompt_tokens + requests.max_output).max(initial=1))
    longest += 2 * limits.num_drafts + limits.lookahead
    width, rows = -(-longest // limits.block_size), min(limits.max_active, n)
    free_next = np.where(number < b - 1, number + 1, NONE)
    free_prev = np.where(number == 1, NONE, number - 1)
    blocks = Blocks(
        key=ints(b, UNHASHED),
        uses=ints(b),
        free_prev=free_prev,
        free_next=free_next,
        same_prev=ints(b, NONE),
        same_next=ints(b, NONE),
    )
    holders = Holders(
        row=ints(n),
        held=ints(n),
        hashed=ints(n),
        cross_prev=ints(n, NONE),
        cross_next=ints(n, NONE),
    )
    return Pool(
        blocks=as_records(blocks),
        holders=as_records(holders),
        buckets=ints(2 << int(max(b - 1, 1)).bit_length(), NONE),
        table=np.empty(rows * width, dtype=np.int64),
        free_rows=np.arange(rows, dtype=np.int64)[::-1].copy() * width,
        cross_ends=ints(2 * limits.block_size, NONE),
    )


def as_records(columns: T) -> T:
    """The columns as one array of records, which reads and writes like the NamedTuple.

    A kernel that is handed one array instead of ten compiles in half the time (27 s instead of
    52 s for all of them) and runs as fast.
    """
    dtype = [(name, column.dtype) for name, column in columns._asdict().items()]
    return cast(T, np.rec.fromarrays(list(columns), dtype=dtype))
