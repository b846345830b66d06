"""Allocating the simulator's state, and giving its logs more room."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tuner.simulator.pool_arrays import UNHASHED, Pool, Prefixes
from tuner.simulator.state import (
    ENDING_BEFORE,
    ENDING_NOW,
    FREE_BLOCKS,
    FREE_HEAD,
    FREE_TAIL,
    NONE,
    NUM_COUNTS,
    NUM_FREE_ROWS,
    NUM_TIMES,
    PART_HEAD,
    PART_TAIL,
    RUN_HEAD,
    RUN_TAIL,
    STACK_HEAD,
    FloatArray,
    IntArray,
    Limits,
    Links,
    Log,
    Progress,
    Record,
    Requests,
    State,
    Tally,
)


def allocate(
    requests: Requests,
    prefixes: Prefixes,
    limits: Limits,
    num_kv_blocks: int,
    itl_limit_s: FloatArray,
) -> State:
    """Fresh state for `requests` (N) and the classes of `itl_limit_s` (C)."""
    n, classes = requests.visible_s.size, itl_limit_s.size

    def ints(fill: int = 0) -> IntArray:
        return np.full(n, fill, dtype=np.int64)

    def nans() -> FloatArray:
        return np.full(n, np.nan)

    counts = np.zeros(NUM_COUNTS, dtype=np.int64)
    lists = (RUN_HEAD, RUN_TAIL, PART_HEAD, PART_TAIL, STACK_HEAD, ENDING_NOW, ENDING_BEFORE)
    counts[list(lists)] = NONE
    counts[FREE_BLOCKS] = num_kv_blocks - 1
    pool = build_pool(requests, limits, num_kv_blocks)
    if limits.identities:
        counts[FREE_HEAD], counts[FREE_TAIL] = 1, num_kv_blocks - 1
        counts[NUM_FREE_ROWS] = pool.free_rows.size
    longest = int(requests.max_output.max(initial=1))
    room = min(4 * n, 1 << 19) + 2 * longest + limits.max_active + 1024
    return State(
        requests=requests,
        progress=Progress(
            phase=ints(),
            computed=ints(),
            outputs=ints(),
            chunk=ints(),
            end_clock=ints(),
            slow_at_join=ints(),
            num_slow=ints(),
            last_token_s=nans(),
            first_token_s=nans(),
            finish_s=nans(),
        ),
        links=Links(
            ints(NONE),
            ints(NONE),
            ints(NONE),
            ints(NONE),
            ticket=ints(),
            heap=ints() if limits.priority else no_ints(),
            ring=np.full(longest + 2, NONE, dtype=np.int64),
        ),
        tally=Tally(
            counts=counts,
            times=np.zeros(NUM_TIMES),
            crossing=np.zeros(limits.block_size, dtype=np.int64),
            decodes=np.zeros(classes, dtype=np.int64),
            slow=np.zeros(classes, dtype=np.int64),
            late=np.zeros(classes, dtype=np.int64),
            itl_limit_s=itl_limit_s.astype(np.float64),
        ),
        log=Log(np.empty(room), np.empty(room * classes, dtype=np.int64)),
        record=empty_record(8 * n + 4096 if limits.recording else 0),
        prefixes=prefixes,
        pool=pool,
    )


def no_ints() -> IntArray:
    """An array of integers that is not used."""
    return np.zeros(0, dtype=np.int64)


def build_pool(requests: Requests, limits: Limits, num_kv_blocks: int) -> Pool:
    """A pool of free blocks in order of their numbers; empty when blocks are only counted."""
    if not limits.identities:
        return Pool(*(no_ints() for _ in Pool._fields))
    n, number = requests.visible_s.size, np.arange(num_kv_blocks, dtype=np.int64)
    longest = int((requests.prompt_tokens + requests.max_output).max(initial=1))
    width, rows = -(-longest // limits.block_size), max(1, min(limits.max_active, n))
    free_next = number + 1
    free_next[-1] = NONE
    free_prev = number - 1
    free_prev[1:2] = NONE
    return Pool(
        key=np.full(num_kv_blocks, UNHASHED, dtype=np.int64),
        uses=np.zeros(num_kv_blocks, dtype=np.int64),
        free_prev=free_prev,
        free_next=free_next,
        same_prev=np.full(num_kv_blocks, NONE, dtype=np.int64),
        same_next=np.full(num_kv_blocks, NONE, dtype=np.int64),
        buckets=np.full(2 << int(num_kv_blocks - 1).bit_length(), NONE, dtype=np.int64),
        table=np.empty(rows * width, dtype=np.int64),
        free_rows=np.arange(rows, dtype=np.int64)[::-1].copy() * width,
        row=np.zeros(n, dtype=np.int64),
        held=np.zeros(n, dtype=np.int64),
        hashed=np.zeros(n, dtype=np.int64),
        cross_prev=np.full(n, NONE, dtype=np.int64),
        cross_next=np.full(n, NONE, dtype=np.int64),
        cross_ends=np.full(2 * limits.block_size, NONE, dtype=np.int64),
    )


def empty_record(rows: int) -> Record:
    """A step record with room for `rows` rows."""
    return Record(*(np.empty(rows, dtype=np.int64) for _ in Record._fields))


def grow_logs(state: State) -> State:
    """The same state with twice the room in its log and record."""

    def twice(old: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        new = np.empty(2 * old.size, dtype=old.dtype)
        new[: old.size] = old
        return new

    return state._replace(
        log=Log(*(twice(a) for a in state.log)),  # type: ignore[arg-type]
        record=Record(*(twice(a) for a in state.record)),  # type: ignore[arg-type]
    )
