"""Traces from a browser, read in a process of its own with little memory and time, because a few
kilobytes of a compressed file can unpack to any size.

`python -m dashboard.uploads.convert FROM TO MEGABYTES COLUMNS`, the process, prints why it failed.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from profiler.errors import StallfreeError, TraceError
from profiler.traffic.columns import ColumnMap
from profiler.traffic.readers import read_trace

_MOST_MEMORY_MB = 4096
_TIMEOUT_S = 60
_MESSAGE = 400
"""most characters of a message that are shown"""


def convert(given: Path, made: Path, columns: str | None = None) -> None:
    """Keep the trace in the file `given` as Stallfree's own Parquet in `made`: times and lengths
    alone. `columns` is as `ColumnMap.parse` has it. Raises `TraceError`."""
    few = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # each thread maps memory
    command = [sys.executable, "-P", "-m", __name__, str(given), str(made)]
    command += [str(_MOST_MEMORY_MB), columns or ""]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_TIMEOUT_S, env={**os.environ, **few}, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise TraceError(f"{given.name}: not read in {_TIMEOUT_S} s; give a part of it") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        known = done.returncode == 2 and said
        why = said[-1] if known else "it could not be read (too large when unpacked?)"
        raise TraceError(why[:_MESSAGE] if known else f"{given.name}: {why}; give a part of it")


def _read_and_save(given: Path, made: Path, most_mb: int, columns: str) -> None:
    """What the process does."""
    resource.setrlimit(resource.RLIMIT_AS, (most_mb << 20, most_mb << 20))
    resource.setrlimit(resource.RLIMIT_CPU, (_TIMEOUT_S, _TIMEOUT_S))
    mapping = ColumnMap.parse(columns) if columns else None
    trace = read_trace(given, mapping=mapping).trace
    replace(trace, source=f"{given.name} (uploaded)").save(made)


if __name__ == "__main__":
    try:
        _read_and_save(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    except StallfreeError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        sys.exit(2)
