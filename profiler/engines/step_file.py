"""The file that the recording scheduler writes: one record per step, all 8-byte floats.

A record is HEADER numbers, then ENTRY numbers for each request that got tokens. Counts stay exact
in a float up to 2**53. One kind of number keeps writing cheap and reading a plain `np.fromfile`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from profiler.steps import AFTER_CHUNKS, AFTER_DECODES, AFTER_IDLE, StepSamples

HEADER = 8
"""requests in the step, start, schedule time, execution time, interval between outputs (NaN after
an idle engine), running, waiting, free blocks"""
ENTRY = 4
"""request number, tokens, tokens computed before, 1 for a prompt chunk else 0"""

FloatArray = npt.NDArray[np.float64]


class StepRecords(NamedTuple):
    """S steps and the E entries of their requests."""

    header: FloatArray
    """(S, HEADER)"""
    entry: FloatArray
    """(E, ENTRY), step after step"""


class StepFile:
    """Reads a growing step file, from where it last stopped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def take(self) -> StepRecords:
        """The whole records written since the last call."""
        if not self._path.exists():
            return StepRecords(np.empty((0, HEADER)), np.empty((0, ENTRY)))
        numbers = np.fromfile(self._path, dtype=np.float64, offset=self._offset)
        starts, end = _record_starts(numbers)
        self._offset += 8 * end
        at = starts[:, None] + np.arange(HEADER)
        is_entry = np.ones(end, dtype=np.bool_)
        is_entry[at] = False
        return StepRecords(numbers[at], numbers[:end][is_entry].reshape(-1, ENTRY))


def _record_starts(numbers: FloatArray) -> tuple[npt.NDArray[np.int64], int]:
    """Where each whole record starts, and where the last one ends (a later one may be torn)."""
    starts: list[int] = []
    end = 0
    while end < numbers.size:
        following = end + HEADER + ENTRY * int(numbers[end])
        if following > numbers.size:
            break
        starts.append(end)
        end = following
    return np.array(starts, dtype=np.int64), end


def step_samples(records: StepRecords) -> StepSamples:
    """The table of the latency model: each step's chunks and decodes summed up.

    A chunk of n tokens after `before` cached ones has n * (before + (n + 1) / 2) query-key pairs:
    token j of it attends to before + j keys.
    """
    count, start, schedule, execution, interval, running, waiting, free = records.header.T
    _, tokens, before, chunk = records.entry.T
    num_steps = count.size
    step = np.repeat(np.arange(num_steps), count.astype(np.int64))

    def total(values: FloatArray) -> FloatArray:
        return np.bincount(step, weights=values, minlength=num_steps).astype(np.float64)

    prefill_tokens = _int(total(tokens * chunk))
    return StepSamples(
        prefill_tokens=prefill_tokens,
        num_prefills=_int(total(chunk)),
        attention_pairs=total(chunk * tokens * (before + (tokens + 1) / 2)),
        chunk_context=_int(total(before * chunk)),
        num_decodes=_int(total(1 - chunk)),
        decode_context=_int(total(before * (1 - chunk))),
        follows=what_ran_before(prefill_tokens, interval),
        exec_s=execution,
        interval_s=interval,
        schedule_s=schedule,
        num_running=_int(running),
        num_waiting=_int(waiting),
        free_blocks=_int(free),
        start_s=start,
        speed=np.ones(num_steps),
        configuration=np.zeros(num_steps, dtype=np.int64),
        is_sentinel=np.zeros(num_steps, dtype=np.bool_),
    )


def what_ran_before(
    prefill_tokens: npt.NDArray[np.int64], interval_s: FloatArray
) -> npt.NDArray[np.int64]:
    """(S,) `StepSamples.follows` of consecutive steps. Records are taken from an idle engine, so
    nothing runs right before the first."""
    follows = np.full(prefill_tokens.size, AFTER_IDLE, dtype=np.int64)
    follows[1:] = np.where(prefill_tokens[:-1] > 0, AFTER_CHUNKS, AFTER_DECODES)
    follows[np.isnan(interval_s)] = AFTER_IDLE
    return follows


def _int(values: FloatArray) -> npt.NDArray[np.int64]:
    return np.rint(values).astype(np.int64)
