"""The file in which a decode engine's KV connector records transfers: rows of 8-byte floats.

One row per load as the scheduler saw it (from the step that started it to the report that it is
over), and one per load as the transport timed it (`vllm.cpu_nixl` writes both).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

TRANSFERS_VARIABLE = "STALLFREE_TRANSFERS"
"""environment variable: path of the file"""
LOAD, WIRE = 0.0, 1.0
"""first number of a row: its kind"""
ROW = 4
"""LOAD: start and end on the machine's monotonic clock, prompt tokens. WIRE: seconds from posting
the read to its completion, seconds that posting it took, bytes."""

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TransferRecords:
    """Transfers into one engine: L loads, in the order of their ends, and W reads on the wire."""

    start_s: FloatArray
    """(L,) the step that started the load, on the machine's monotonic clock"""
    end_s: FloatArray
    """(L,) the report that it is over"""
    tokens: FloatArray
    """(L,) prompt tokens that were loaded"""
    wire_s: FloatArray
    """(W,) seconds of the read, as the transport timed it"""
    post_s: FloatArray
    """(W,) the part of it that the engine waited for"""
    wire_bytes: FloatArray
    """(W,) bytes moved"""


class TransferFile:
    """Reads a growing file of transfers, from where it last stopped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def take(self) -> TransferRecords:
        """The whole rows written since the last call."""
        numbers = np.empty(0)
        if self._path.exists():
            numbers = np.fromfile(self._path, dtype=np.float64, offset=self._offset)
        rows = numbers[: numbers.size - numbers.size % ROW].reshape(-1, ROW)
        self._offset += rows.nbytes
        loads, wire = (rows[rows[:, 0] == kind, 1:].T.copy() for kind in (LOAD, WIRE))
        return TransferRecords(*loads, *wire)
