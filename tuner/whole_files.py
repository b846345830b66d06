"""Files and folders that appear whole or not at all: written beside their place and renamed."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from profiler.errors import ResultsError


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """Turn a failed write into a one-line `ResultsError` that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise ResultsError(
                f"no space left on the disk of {place}; free some and go on with --resume"
            ) from error
        raise ResultsError(
            f"{place} cannot be written: {error.strerror}; check the path and its permissions"
        ) from error


@contextmanager
def whole_folder(place: Path) -> Iterator[Path]:
    """A folder to fill, moved to `place` at the end; nothing is left at `place` on failure."""
    unfinished = place.with_name(place.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        shutil.rmtree(place, ignore_errors=True)
        os.replace(unfinished, place)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write `path` whole or not at all."""
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)


def write_json(path: Path, plain: Mapping[str, Any]) -> None:
    """Write `plain` as JSON, whole or not at all. NaN and infinity are refused: not JSON."""
    write_text(path, json.dumps(plain, indent=2, allow_nan=False, default=str) + "\n")


def changed_ns(path: Path) -> int:
    """When `path` last changed, for caches that must not outlive it; 0 where there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises `ResultsError` when missing or damaged."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path} cannot be read ({error}); run again with --fresh") from error
    if not isinstance(plain, dict):
        raise ResultsError(f"{path} is damaged: not a JSON object; run again with --fresh")
    return plain
