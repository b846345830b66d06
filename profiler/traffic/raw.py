"""From bytes on disk to a table of raw values, each row with its line number.

Knows containers (gzip, CSV, JSONL, JSON, Parquet), not what the columns mean.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from profiler.errors import TraceError
from profiler.traffic.checks import IntArray

Container = Literal["csv", "jsonl", "json", "parquet"]

_DELIMITERS = ",;\t"


@dataclass(frozen=True)
class RawTable:
    """Rows as found in a file, before any meaning."""

    name: str
    """file name, for messages."""
    container: Container
    frame: pd.DataFrame
    """one column per field of the file, (N,) rows; text cells for CSV."""
    lines: IntArray
    """(N,) where each row stands: line of a text file, record of a JSON array or Parquet file."""
    notes: tuple[str, ...]
    """what was undone on the way: gzip, byte order mark, CRLF."""
    blank_lines: tuple[int, ...] = ()
    arrow: pa.Table | None = None
    """the Parquet table itself, for its metadata."""

    @property
    def place(self) -> str:
        """What `lines` counts, in words."""
        return "line" if self.container in ("csv", "jsonl") else "record"

    def at(self, row: int) -> str:
        """`FILE line 7`, for messages about row `row` of the frame."""
        return f"{self.name} {self.place} {self.lines[row]}"


def read_raw(path: Path) -> RawTable:
    """Read any supported container, told apart by content and never by the file's name.

    Raises
    ------
    TraceError
        The file is missing, empty, damaged, not UTF-8, or holds a header and no rows.
    """
    data, notes = _content(path)
    if data.startswith(b"PAR1"):
        return _read_parquet(path.name, data, notes)
    text = _decoded(path.name, data, notes)
    if not text.strip():
        raise TraceError(f"{path.name}: the file is empty; give a recorded trace")
    first = text.lstrip()[0]
    if first == "[":
        return _read_json(path.name, text, notes)
    if first == "{":
        return _read_jsonl(path.name, text, notes)
    return _read_csv(path.name, text, notes)


def _content(path: Path) -> tuple[bytes, list[str]]:
    if not path.is_file():
        raise TraceError(f"{path}: no such file; give the path of a recorded trace")
    try:
        data = path.read_bytes()
        if not data.startswith(b"\x1f\x8b"):
            return data, []
        return gzip.decompress(data), ["gzip: unpacked"]
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(
            f"{path.name}: the gzip data is cut off or damaged ({error}); fetch the file again"
        ) from error
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror})") from error


def _decoded(name: str, data: bytes, notes: list[str]) -> str:
    if data.startswith(b"\xef\xbb\xbf"):
        notes.append("byte order mark: removed")
        data = data[3:]
    if b"\r\n" in data:
        notes.append("CRLF line ends: read as line ends")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TraceError(f"{name} line {line}: not UTF-8 text; save the file as UTF-8") from error


def _read_csv(name: str, text: str, notes: list[str]) -> RawTable:
    head, _, rest = text.partition("\n")
    if not head.strip():
        raise TraceError(f"{name} line 1: blank; the first line must name the columns")
    if not rest.strip():
        raise TraceError(f"{name}: a header and no rows; the trace holds no requests")
    delimiter = max(_DELIMITERS, key=head.count)
    names = [c.strip() for c in next(csv.reader([head.rstrip("\r")], delimiter=delimiter))]
    repeated = {c for c in names if names.count(c) > 1}
    if repeated:
        raise TraceError(f"{name} line 1: two columns are called {sorted(repeated)[0]!r}; rename")
    frame = _parse_csv(name, text, names, delimiter)
    empty = np.flatnonzero((frame == "").all(axis=1))
    written = text.split("\n") if empty.size else []
    blank = [row for row in empty.tolist() if not written[row + 1].strip()]
    lines = np.delete(np.arange(2, len(frame) + 2, dtype=np.int64), blank)
    frame = frame.drop(index=blank).reset_index(drop=True)
    return RawTable(name, "csv", frame, lines, tuple(notes), tuple(row + 2 for row in blank))


def _parse_csv(name: str, text: str, names: list[str], delimiter: str) -> pd.DataFrame:
    bad: list[Any] = []

    def refuse(row: Any) -> str:
        bad.append(row)
        return "error"

    try:
        table = pa_csv.read_csv(
            io.BytesIO(text.encode()),
            read_options=pa_csv.ReadOptions(use_threads=False, column_names=names, skip_rows=1),
            parse_options=pa_csv.ParseOptions(
                delimiter=delimiter, ignore_empty_lines=False, invalid_row_handler=refuse
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types={c: pa.string() for c in names}, strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        if bad:
            raise TraceError(
                f"{name} line {bad[0].number}: {bad[0].actual_columns} columns, but the header "
                f"has {bad[0].expected_columns}; one file must hold one kind of rows"
            ) from error
        raise TraceError(f"{name}: broken CSV ({str(error).splitlines()[0]})") from error
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _read_jsonl(name: str, text: str, notes: list[str]) -> RawTable:
    records: list[dict[str, Any]] = []
    lines: list[int] = []
    blank: list[int] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            blank.append(number)
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise TraceError(
                f"{name} line {number}: broken JSON ({error.msg} at column {error.colno}); "
                "each line must be one whole JSON object"
            ) from error
        if not isinstance(record, dict):
            raise TraceError(f"{name} line {number}: a JSON object was expected, got {line[:40]!r}")
        records.append(record)
        lines.append(number)
    if blank and blank[-1] == number:
        blank.pop()
    place = np.array(lines, dtype=np.int64)
    return RawTable(name, "jsonl", pd.DataFrame(records), place, tuple(notes), tuple(blank))


def _read_json(name: str, text: str, notes: list[str]) -> RawTable:
    try:
        records = json.loads(text)
    except json.JSONDecodeError as error:
        raise TraceError(
            f"{name} line {error.lineno}: broken JSON ({error.msg} at column {error.colno}); "
            "the file must be one whole JSON array of objects"
        ) from error
    if not records:
        raise TraceError(f"{name}: an empty JSON array; the trace holds no requests")
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise TraceError(f"{name} record {number}: a JSON object was expected")
    place = np.arange(1, len(records) + 1, dtype=np.int64)
    return RawTable(name, "json", pd.DataFrame(records), place, tuple(notes))


def _read_parquet(name: str, data: bytes, notes: list[str]) -> RawTable:
    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read()  # `read_table` loads pyarrow.dataset
    except (pa.ArrowException, OSError) as error:
        first = str(error).splitlines()[0]
        raise TraceError(f"{name}: not a readable Parquet file ({first})") from error
    if table.num_rows == 0:
        raise TraceError(f"{name}: columns and no rows; the trace holds no requests")
    frame = table.to_pandas()
    frame.columns = frame.columns.map(str)
    place = np.arange(1, len(frame) + 1, dtype=np.int64)
    return RawTable(name, "parquet", frame, place, tuple(notes), arrow=table)
