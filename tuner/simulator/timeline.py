"""What a run shows of its steps: the timeline, the record, and the longest gap of a single request.

The kernel writes arrays (`step_arrays.py`); here they become what `simulate` returns, with request
numbers of the trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tuner.simulator.state import (
    NONE,
    NUM_ROWS,
    NUM_STEPS,
    WORST_OWN,
    WORST_OWN_END,
    WORST_OWN_START,
    FloatArray,
    IntArray,
    State,
)
from tuner.simulator.step_arrays import Record, Steps

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class StepRecord:
    """What steps did; rows in order of time, then in the engine's order."""

    step: IntArray
    """(rows,) number of the busy step"""
    request: IntArray
    """(rows,) index into the trace"""
    tokens: IntArray
    """(rows,) tokens scheduled; -1 marks a preemption. Where the queues are recorded, after the
    step -2 marks every running and -3 every waiting request, in the order of their queues (a heap
    under priorities)"""
    before: IntArray
    """(rows,) tokens computed before"""
    free: IntArray
    """(rows,) free KV blocks after scheduling"""


@dataclass(frozen=True)
class Timeline:
    """One entry for every busy step, S of them, as of when it had been scheduled.

    Under asynchronous scheduling a step is scheduled when the one before it starts to run, so that
    what arrives or is freed later counts for the step after.
    """

    schedule_s: FloatArray
    """(S,) when schedule() built it, seconds"""
    start_s: FloatArray
    """(S,) when it began to run, seconds"""
    end_s: FloatArray
    """(S,) when its output appeared, seconds"""
    prefill_tokens: IntArray
    """(S,) tokens of prompt chunks"""
    num_decodes: IntArray
    """(S,) requests that decoded a token; with drafts, the tokens that they computed"""
    decode_context: IntArray
    """(S,) tokens computed before, summed over the decodes"""
    num_running: IntArray
    """(S,) requests with a slot"""
    num_waiting: IntArray
    """(S,) requests in the waiting queue"""
    free_blocks: IntArray
    """(S,) free KV blocks"""

    @property
    def num_steps(self) -> int:
        return int(self.end_s.size)


class OwnGap(NamedTuple):
    """A gap between two tokens of one request that did not decode in every step between."""

    request: int
    """index into the trace"""
    start_s: float
    end_s: float


def record_limits(record: bool | tuple[float, float]) -> dict[str, Any]:
    """The fields of `Limits` that say what is recorded."""
    if record is False:
        return {}
    start, end = (-np.inf, np.inf) if record is True else record
    return {
        "record_from_s": float(start),
        "record_until_s": float(end),
        "record_queues": record is True,
    }


def spread(values: FloatArray, accepted: BoolArray) -> FloatArray:
    """(N,) `values` at the accepted requests, NaN at the rejected ones."""
    whole = np.full(accepted.size, np.nan)
    whole[accepted] = values
    return whole


def gather_record(accepted: BoolArray, state: State) -> StepRecord:
    """The step record with request numbers of the trace."""
    rows = Record(*(column[: state.tally.counts[NUM_ROWS]].copy() for column in state.record))
    original = np.flatnonzero(accepted)
    return StepRecord(**{**rows._asdict(), "request": original[rows.request]})


def gather_timeline(state: State) -> Timeline:
    """The timeline, with the length of the waiting queue.

    While nothing can be admitted the kernel does not look at arrivals, so the queue's length is
    counted here: what had arrived at the schedule() call, less what had been taken.
    """
    num = int(state.tally.counts[NUM_STEPS])
    columns = {name: getattr(state.steps, name)[:num].copy() for name in Steps._fields}
    arrived = np.searchsorted(state.requests.visible_s, columns["schedule_s"], side="right")
    return Timeline(
        num_waiting=arrived - columns.pop("num_taken"), free_blocks=columns.pop("free"), **columns
    )


def gather_own_gap(accepted: BoolArray, state: State) -> OwnGap | None:
    """The longest gap of a request that was preempted or late."""
    counts, times = state.tally.counts, state.tally.times
    if counts[WORST_OWN] == NONE:
        return None
    request = int(np.flatnonzero(accepted)[counts[WORST_OWN]])
    return OwnGap(request, float(times[WORST_OWN_START]), float(times[WORST_OWN_END]))
