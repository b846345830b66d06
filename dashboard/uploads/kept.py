"""Traces from a browser that are kept in the storage folder, as times and lengths alone."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from dashboard.options import current
from dashboard.uploads import passing
from dashboard.uploads.convert import convert
from profiler.errors import TraceError
from tuner.whole_files import writing

FOLDER = "uploads"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


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
        with (
            tempfile.TemporaryDirectory(dir=passing.folder()) as raw,
            tempfile.TemporaryDirectory(prefix=".", dir=place.parent) as folder,
        ):
            given, made = Path(raw) / name, Path(folder) / "made.parquet"
            given.write_bytes(content)  # never where runs are kept: it may hold text
            convert(given, made)
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
