"""`ProxyProcess`: the parent's handle on the proxy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from profiler.engines.vllm.child import Child
from profiler.engines.vllm.enginelog import root_cause
from profiler.errors import EngineStartError

_START_S = 30.0
_GRACE_S = 2.0


class ProxyProcess:
    """A started proxy at 127.0.0.1:`port`.

    Parameters
    ----------
    config
        The proxy's `start` command, but for its port; see `proxy`.
    log
        File for what it prints.

    Raises
    ------
    EngineStartError
        It did not start.
    """

    def __init__(self, config: dict[str, Any], log: Path) -> None:
        self._config, self._log = config, log
        self.port = 0
        self._child = self._start()

    @property
    def is_alive(self) -> bool:
        return self._child.is_alive

    @property
    def pid(self) -> int:
        return self._child.pid

    def restart(self) -> None:
        """Kill it, with all that it holds, and start it again at the same port."""
        self._child.end(grace_s=0.0)
        self._child = self._start()

    def stop(self) -> None:
        """End it. Never raises; not to be called again."""
        self._child.end(grace_s=_GRACE_S)

    def _start(self) -> Child:
        child = Child("profiler.engines.deployment.proxy", dict(os.environ), self._log)
        child.send({"command": "start", **self._config, "port": self.port})
        message = child.receive(_START_S)
        if message is None or message["event"] != "ready":
            child.end(grace_s=0.0)
            raise EngineStartError(
                f"the proxy was not ready within {_START_S:g} s: {root_cause(self._log)}; "
                f"log: {self._log}"
            )
        self.port = message["port"]
        return child
