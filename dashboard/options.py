"""What the server was started with; set once, by `dashboard.server` or a test, before any page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuner.results import DEFAULT_ROOT


@dataclass(frozen=True)
class Options:
    """Of one server."""

    root: Path = DEFAULT_ROOT
    """folder with run folders, or one run folder"""
    allow_launch: bool = False
    """whether pages may queue, stop and resume studies; without it nothing but derived figures is
    ever written"""
    patience_s: float = 0.4
    """how long a page waits for a computation before it says so and goes on"""
    max_upload_mb: int = 50
    """largest file that is taken from a browser"""


_current = Options()


def use(options: Options) -> None:
    """Make `options` those of this process."""
    global _current
    _current = options


def current() -> Options:
    """Those of this process."""
    return _current
