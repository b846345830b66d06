"""Locks on files: they go when the process that holds them does, however it ends."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path
from typing import IO

_ATTEMPTS, _PAUSE_S = 5, 0.02


def try_lock(path: Path) -> IO[str] | None:
    """`path`, made if needed, open and locked until it is closed; None when another has it.

    Tries for a tenth of a second, because `is_locked` shares the lock while it looks. Raises
    `OSError`.
    """
    handle = open(path, "a")  # noqa: SIM115 (the caller closes it)
    for _ in range(_ATTEMPTS):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except OSError:
            time.sleep(_PAUSE_S)
    handle.close()
    return None


def is_locked(path: Path) -> bool:
    """Whether a process holds `path` (`try_lock`)."""
    try:
        with open(path) as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # nobody ever locked it, or this place has no locks
        return False
    return False
