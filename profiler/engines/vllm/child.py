"""The parent's handle on the engine's server process: start, talk, end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from profiler.engines.vllm.session import kill_session

Message = dict[str, Any]


class Child:
    """A server process in a session of its own. Commands go to its standard input and replies
    come from a pipe of their own, as JSON lines; all it prints goes to `log`.

    The child ends its session when its standard input ends, and so outlives no parent.
    """

    def __init__(self, module: str, environment: dict[str, str], log: Path) -> None:
        self.log = log
        self._replies, write_end = os.pipe()
        self._buffer = b""
        try:
            with log.open("wb") as output:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", module, str(write_end)],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    pass_fds=(write_end,),
                    start_new_session=True,
                )
        finally:
            os.close(write_end)
        self.pid = self._process.pid

    def send(self, message: Message) -> None:
        """Send one command; a child that is gone is noticed by `receive`."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def receive(self, timeout_s: float) -> Message | None:
        """The next reply; None after `timeout_s` without one.

        A child that is gone gives `{"event": "gone", "code": its exit status}`.
        """
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            wait_s = deadline - time.monotonic()
            if wait_s <= 0:
                return None
            # The engine's processes inherit the pipe, so it may stay open when the child is gone.
            readable = select.select([self._replies], [], [], min(wait_s, 0.2))[0]
            chunk = os.read(self._replies, 1 << 16) if readable else b""
            self._buffer += chunk
            if not chunk and (code := self._process.poll()) is not None:
                return {"event": "gone", "code": code}
            if readable and not chunk:  # the pipe has ended; its writer is about to be gone
                time.sleep(0.02)
        line, self._buffer = self._buffer.split(b"\n", 1)
        message: Message = json.loads(line)
        return message

    @property
    def is_alive(self) -> bool:
        """Whether the server process itself still runs."""
        return self._process.poll() is None

    def end(self, *, grace_s: float) -> list[int]:
        """Ask the child to stop, wait `grace_s`, kill what is left; return what would not die."""
        if grace_s > 0:
            self.send({"command": "stop"})
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        left = kill_session(self.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5.0)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        os.close(self._replies)
        return left
