"""Traces from a browser: read, and kept as Stallfree's own Parquet, times and lengths alone.

A file from a browser is read in a process of its own with little memory and time, because a few
kilobytes of a compressed file can unpack to any size. What it was is forgotten.

`python -m dashboard.uploads FROM TO MEGABYTES`, the process, prints why it failed.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from dashboard.options import current
from profiler.errors import StallfreeError, TraceError
from profiler.traffic.readers import read_trace
from tuner.whole_files import writing

FOLDER = "uploads"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MOST_MEMORY_MB = 4096
_TIMEOUT_S = 60
_MESSAGE = 400
"""most characters of a message that are shown"""


def keep_trace(root: Path, name: str, content: bytes) -> Path:
    """Keep the trace in `content` as `root`/uploads/`name`.parquet, whole or not at all.

    Raises `TraceError` for a name that is none or is taken, for a file that is too large or no
    trace; `ResultsError` when it cannot be written.
    """
    place = _place(root, name)
    most = current().max_upload_mb
    if len(content) > most << 20:
        raise TraceError(
            f"a trace from a browser has at most {most} MB, got {len(content) / 2**20:.1f}; "
            "convert it with `stallfree traffic convert` and give its path in the study"
        )
    with writing(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=place.parent) as folder:
            given, made = Path(folder) / name, Path(folder) / "made.parquet"
            given.write_bytes(content)
            _convert(given, made)
            os.link(made, place)  # refuses to replace
    return place


def kept_traces(root: Path) -> list[str]:
    """Traces in the storage folder, relative to it: uploaded ones, then those of its runs."""
    uploaded = sorted((root / FOLDER).glob("*.parquet"))
    of_runs = sorted(p for p in root.glob("*/trace.parquet") if p.parent.name != FOLDER)
    return [str(path.relative_to(root)) for path in (*uploaded, *of_runs)]


def _place(root: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise TraceError(
            f"a trace's name has letters, digits and . _ - and at most 64 of them, got "
            f"{name[:64]!r}; give another one"
        )
    place = root / FOLDER / f"{name}.parquet"
    if os.path.lexists(place):
        raise TraceError(f"there is a trace called {name} already; give another name")
    return place


def _convert(given: Path, made: Path) -> None:
    """`given` as a trace in `made`, in another process. Raises `TraceError`."""
    few = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # each thread maps memory
    command = [sys.executable, "-P", "-m", "dashboard.uploads", str(given), str(made)]
    command.append(str(_MOST_MEMORY_MB))
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


def _read_and_save(given: Path, made: Path, most_mb: int) -> None:
    """What the process does."""
    resource.setrlimit(resource.RLIMIT_AS, (most_mb << 20, most_mb << 20))
    resource.setrlimit(resource.RLIMIT_CPU, (_TIMEOUT_S, _TIMEOUT_S))
    trace = read_trace(given).trace
    replace(trace, source=f"{given.name} (uploaded)").save(made)


if __name__ == "__main__":
    try:
        _read_and_save(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    except StallfreeError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        sys.exit(2)
