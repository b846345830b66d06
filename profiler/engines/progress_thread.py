"""NIXL agents whose progress thread lets others have the core. Imports no NIXL."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PAUSE_US = 1000
"""NIXL's Python API lets its progress thread poll without a pause, which burns a core"""


@contextmanager
def resting_progress_thread(agent: type[Any]) -> Iterator[None]:
    """Let the progress thread of an agent made meanwhile rest between two looks.

    `agent` is NIXL's `nixl_agent`, or what stands for it.
    """
    bindings: Any = vars(sys.modules[agent.__module__])["nixlBind"]
    plain: Any = bindings.nixlAgentConfig

    def set_resting(config: Any, name: str, value: Any) -> None:
        plain.__setattr__(config, name, _PAUSE_US if name == "pthrDelay" else value)

    bindings.nixlAgentConfig = type("Resting", (plain,), {"__setattr__": set_resting})
    try:
        yield
    finally:
        bindings.nixlAgentConfig = plain
