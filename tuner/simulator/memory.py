"""Allocating the simulator's state, and giving its logs more room."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from profiler.steps import AFTER_IDLE
from tuner.simulator.state import (
    ENDING_BEFORE,
    ENDING_NOW,
    FOLLOWS,
    FREE_BLOCKS,
    NONE,
    NUM_COUNTS,
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
    requests: Requests, limits: Limits, num_kv_blocks: int, itl_limit_s: FloatArray
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
    counts[FOLLOWS] = AFTER_IDLE
    longest = int(requests.max_output.max(initial=1))
    room = 4 * n + 2 * int(requests.max_output.max(initial=1)) + limits.max_active + 1024
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
