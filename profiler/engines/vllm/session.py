"""Ending every process of an engine for certain.

The engine's server is started as the leader of a session of its own. All that descends from it
stays in that session, also after its own parent has died, so a session is the one handle by which
nothing is lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from queue import SimpleQueue
from typing import Any

import psutil

_TRACKER = "multiprocessing.resource_tracker"
_POLL_S = 0.5


def session_members(session: int) -> list[psutil.Process]:
    """Living processes of `session` (its leader's process id), zombies left out."""
    members = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
    return members


def kill_session(session: int, *, timeout_s: float = 10.0) -> list[int]:
    """SIGKILL every process of `session`, the calling one last; return the ids that are left.

    Python's resource trackers go last: they end by themselves once all others are gone, and
    remove the shared memory that those left behind.
    """
    own = os.getsid(0) == session
    deadline = time.monotonic() + timeout_s
    spare_until = deadline if own else time.monotonic() + min(2.0, timeout_s / 2)
    while members := _others(session, with_trackers=not own):
        if time.monotonic() > deadline:
            break
        for member in members:
            if time.monotonic() > spare_until or not _is_tracker(member):
                with contextlib.suppress(psutil.Error):
                    member.kill()
        time.sleep(0.02)
    if own:
        os.kill(os.getpid(), signal.SIGKILL)
    return [member.pid for member in members]


def end_with_parent() -> None:
    """From now on, end this process's whole session as soon as its parent has died."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_S)
        kill_session(os.getsid(0))

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


def read_commands(commands: SimpleQueue[dict[str, Any]]) -> None:
    """Pass commands on; end the whole session at the end of standard input.

    Reads without Python's buffers, whose locks a forked engine process would inherit locked.
    """
    buffer = b""
    while chunk := os.read(0, 1 << 16):
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            commands.put(json.loads(line))
    kill_session(os.getsid(0))


def _others(session: int, *, with_trackers: bool) -> list[psutil.Process]:
    others = [m for m in session_members(session) if m.pid != os.getpid()]
    return [m for m in others if with_trackers or not _is_tracker(m)]


def _is_tracker(process: psutil.Process) -> bool:
    try:
        return any(_TRACKER in part for part in process.cmdline())
    except psutil.Error:
        return False
