"""Room for what a run leaves behind: gaps, timeline and record; and more of it when it is full."""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from tuner.simulator.state import Log, State
from tuner.simulator.step_arrays import Record, Steps

MAX_LOGGED = 1 << 15
"""token gaps that are kept one by one; see `gap_store.py`"""


def empty_record(rows: int) -> Record:
    """A step record with room for `rows` rows."""
    return Record(*(np.empty(rows, dtype=np.int64) for _ in Record._fields))


def empty_steps(rows: int) -> Steps:
    """A timeline with room for `rows` steps."""
    kinds = [(n, np.float64 if n.endswith("_s") else np.int64) for n in Steps._fields]
    return cast(Steps, np.recarray(rows, dtype=kinds))


def grow_steps(state: State) -> State:
    """The same state with room for four times as many steps in its timeline."""
    old = cast(npt.NDArray[np.void], state.steps)
    new = empty_steps(4 * old.size)
    cast(npt.NDArray[np.void], new)[: old.size] = old
    return state._replace(steps=new)


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
