"""Reading an engine's log for what a user needs to know."""

from __future__ import annotations

import re
from pathlib import Path

_CAUSE = re.compile(
    r"\b(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b: \S|(?:died|exited) unexpectedly"
)
_WRAPPERS = (
    "Engine core initialization failed",
    "WorkerProc initialization failed",
    "EngineDeadError",
)
_MEMORY = re.compile(
    r"out of memory|can't allocate memory|bad_alloc|OutOfMemory|MemoryError|"
    r"Available memory on node|No available memory|larger than the available KV cache|"
    r"less than desired",
    re.IGNORECASE,
)
_PREFIX = re.compile(
    r"^(?:\([^)]*pid=\d+\) *)?(?:(?:ERROR|WARNING|INFO) [\d-]+ [\d:]+ \[[^]]*\] *)?"
)
_PYDANTIC_START = re.compile(r"^ValidationError: \d+ validation errors? for \w+ (?:Value error, )?")
_PYDANTIC_END = re.compile(r" \[type=\w+, input_value=.*$")
_MOST_CHARACTERS = 300
_TAIL_BYTES = 1 << 18


def log_tail(path: Path, num_lines: int = 30) -> list[str]:
    """The last lines of the log that say something."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-num_lines:]


def root_cause(path: Path) -> str:
    """The error that started the trouble, in one line; else the last line; "" for an empty log.

    vLLM wraps the first error of a process in others, so the first named one is the cause.
    """
    lines = [_PREFIX.sub("", line).strip() for line in log_tail(path, num_lines=2000)]
    errors = [x for x in lines if _CAUSE.search(x) and not any(w in x for w in _WRAPPERS)]
    return one_line((errors or lines[-1:] or [""])[0])


def one_line(text: str) -> str:
    """`text` in one line without pydantic's frame around the rule, cut to a readable length."""
    text = _PYDANTIC_END.sub("", _PYDANTIC_START.sub("", " ".join(text.split()))).rstrip(". ")
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS].rstrip() + " ..."


def ran_out_of_memory(path: Path) -> bool:
    """Whether the log speaks of memory that was not there."""
    return any(_MEMORY.search(line) for line in log_tail(path, num_lines=2000))
