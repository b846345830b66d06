"""The real server, as a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

STALLFREE = (sys.executable, "-c", "from tuner.cli.app import main; main()")
_ROOT = Path(__file__).resolve().parents[3]
_END_S = 10.0


@dataclass(frozen=True)
class Served:
    """A server that listens."""

    url: str
    process: subprocess.Popen[str]
    said: str
    """its line on stdout"""


def stallfree(
    *words: str | Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`stallfree` with these words, to its end."""
    return subprocess.run(
        [*STALLFREE, *map(str, words)], env=_environment(env), capture_output=True, text=True
    )


@contextmanager
def serving(
    root: Path, *options: str | Path, env: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """`stallfree dashboard ROOT` with options, on a free port of this machine."""
    port = free_port()
    words = ["dashboard", root, "--port", port, *options]
    process = subprocess.Popen(
        [*STALLFREE, *map(str, words)], env=_environment(env), stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()  # when it listens, or empty when it has ended
        assert said, f"the server ended with code {process.wait()}"
        yield Served(f"http://127.0.0.1:{port}", process, said)
    finally:
        process.terminate()
        process.wait(_END_S)
        if process.stdout is not None:
            process.stdout.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _environment(more: Mapping[str, str] | None) -> dict[str, str]:
    """This process's, with the code under test first."""
    return {**os.environ, "PYTHONPATH": str(_ROOT), **(more or {})}
