"""What steps leave behind for the reader: one row a step, and the detailed record."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Steps(NamedTuple):
    """One row for every busy step, by its number; empty unless `Limits.timeline`.

    Written by `record.add_step`, as of the moment when the step has been scheduled.
    """

    schedule_s: FloatArray
    """(rows,) when schedule() built it"""
    start_s: FloatArray
    """(rows,) when it began to run"""
    end_s: FloatArray
    """(rows,) when its output appeared"""
    prefill_tokens: IntArray
    """(rows,) tokens of its prompt chunks"""
    num_decodes: IntArray
    """(rows,) as BatchShape.num_decodes"""
    decode_context: IntArray
    """(rows,) tokens computed before, summed over the decodes"""
    num_running: IntArray
    """(rows,) requests with a slot"""
    num_taken: IntArray
    """(rows,) requests that were admitted before, less the preempted ones that wait again"""
    free: IntArray
    """(rows,) free blocks"""


class Record(NamedTuple):
    """What steps did, row by row; filled in the window of `Limits.record_from_s`."""

    step: IntArray
    """(rows,) number of the step, empty ones not counted"""
    request: IntArray
    """(rows,) request"""
    tokens: IntArray
    """(rows,) tokens scheduled, or PREEMPTED, RUNS, WAITS"""
    before: IntArray
    """(rows,) tokens computed before"""
    free: IntArray
    """(rows,) free blocks after scheduling"""
