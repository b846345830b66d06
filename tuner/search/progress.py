"""How a long run tells what it is doing; the command line and tests each have their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from profiler.engines.base import Progress


class Ui(Protocol):
    """What `tune` and its parts ask of whoever shows their progress."""

    def stage(self, text: str) -> None:
        """A new part of the work begins, or something worth a line happened."""
        ...

    def progress(self, text: str) -> AbstractContextManager[Progress]:
        """A bar called `text`; call what it gives with (done, total)."""
        ...


class SilentUi:
    """Shows nothing."""

    def stage(self, text: str) -> None:
        del text

    @contextmanager
    def progress(self, text: str) -> Iterator[Progress]:
        del text
        yield lambda done, total: None
