"""A file of records that one process appends to and another reads as it grows: a fixed number of
8-byte floats each."""

from __future__ import annotations

import os
from array import array
from pathlib import Path

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


class RecordWriter:
    """Appends records; each is written in one call, so that several may append."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, *numbers: float) -> None:
        """Append a record."""
        os.write(self._fd, array("d", numbers).tobytes())


class RecordReader:
    """Reads records of `width` numbers from where it last stopped."""

    def __init__(self, path: Path, width: int) -> None:
        self._path, self._width = path, width
        self._offset = 0

    def take(self) -> FloatArray:
        """(R, width) the records written since the last call."""
        numbers = np.empty(0)
        if self._path.exists():
            numbers = np.fromfile(self._path, dtype=np.float64, offset=self._offset)
        self._offset += numbers.nbytes
        return numbers.reshape(-1, self._width)
