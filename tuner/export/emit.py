"""The one function that writes a rendered bundle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tuner.whole_files import whole_folder, write_text, writing


def emit(files: Mapping[str, str], folder: Path) -> Path:
    """Write `files` (name -> text) as `folder`, whole or not at all; returns `folder`.

    A name may have one folder in front. What an earlier export left in `folder` is replaced.
    Raises `ResultsError`.
    """
    with writing(folder), whole_folder(folder) as place:
        for name, text in files.items():
            (place / name).parent.mkdir(exist_ok=True)
            write_text(place / name, text)
    return folder
