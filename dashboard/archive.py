"""The files of an export as one archive. Pure: the same files give the same bytes."""

from __future__ import annotations

import io
import shlex
import zipfile
from collections.abc import Mapping
from pathlib import Path

_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_PLAIN_FILE = 0o100644 << 16
_UNIX = 3


def archive_of(files: Mapping[str, str]) -> bytes:
    """A zip of `files` (name -> text) by name, each dated 1980 (the format's first year)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system, entry.external_attr = _UNIX, _PLAIN_FILE
            archive.writestr(entry, files[name].encode("utf-8"))
    return buffer.getvalue()


def archive_name(study: str, point: str, target: str) -> str:
    """File name of an archive; studies, points and targets are letters, digits, dots, dashes."""
    named = point if not point.isdecimal() else f"trial-{point}"
    return f"{study}-{named}-{target}.zip"


def export_command(folder: Path, target: str, pick: str, current: str | None) -> str:
    """The command that writes the same files."""
    words = ["stallfree", "export", str(folder), "--target", target, "--pick", pick]
    if current is not None:
        words += ["--current", current]
    return shlex.join([*words, "-o", "DIR"])
