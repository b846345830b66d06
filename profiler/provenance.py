"""Where an artefact came from: version, commit, date, host."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
_GIT_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Provenance:
    """Filled by `provenance_now`; kept in the facts of every artefact."""

    stallfree_version: str
    commit: str | None
    """commit of the source tree, with "+changes" when it was edited; None outside a checkout"""
    date: str
    """UTC, ISO 8601, to the second"""
    host: str
    python: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def provenance_now() -> Provenance:
    """Provenance of something made at this moment by this installation."""
    return Provenance(
        stallfree_version=_installed_version(),
        commit=source_commit(_ROOT),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        host=platform.node(),
        python=platform.python_version(),
    )


def _installed_version() -> str:
    try:
        return version("stallfree")
    except PackageNotFoundError:
        return "not installed"


def source_commit(root: Path) -> str | None:
    """Commit of the checkout whose top is `root`; None when there is none or git is missing."""
    if not (root / ".git").exists():
        return None
    commit = _git(root, "rev-parse", "--short=12", "HEAD")
    if commit is None:
        return None
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}+changes" if changed else commit


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
