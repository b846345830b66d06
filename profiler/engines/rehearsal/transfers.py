"""What a rehearsed connector is told, and the file in which it says what moved when."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path
from typing import Any

from profiler.engines.record_file import RecordReader, RecordWriter

_REQUEST = re.compile(r"^cmpl-(\d+)-(\d+)-")
"""of `profiler.engines.deployment.client`, as vLLM's server passes it on"""
_NUMBERS = 4


class Moment(IntEnum):
    """What a record of the file tells the time of."""

    HELD = 0  # a prefill server has made its token, and holds the blocks from now on
    STARTED = 1  # a decode server starts to load
    LOADED = 2  # the load is over
    RELEASED = 3  # the prefill server has given the blocks back


def transfer_file(steps: Path) -> Path:
    """Beside the step file of the same engine."""
    return steps.with_name("transfers.f64")


def transfer_reader(steps: Path) -> RecordReader:
    """Reads records of the replay's running number, the request's, the `Moment` and the time on
    the machine's monotonic clock, seconds."""
    return RecordReader(transfer_file(steps), _NUMBERS)


class TransferWriter:
    """Appends to the file of one engine; requests that no replay sent are left out."""

    def __init__(self, steps: Path) -> None:
        self._records = RecordWriter(transfer_file(steps))

    def write(self, request_id: str, moment: Moment, time_s: float) -> None:
        """Append a record."""
        if found := _REQUEST.match(request_id):
            replay, number = map(float, found.groups())
            self._records.write(replay, number, float(moment), time_s)


def transfer_config(  # noqa: PLR0913  # by keyword, one for each fact of a link
    *,
    role: str,
    policy: str = "fail",
    latency_s: float,
    bytes_per_s: float,
    bytes_per_token: float,
    shared: bool = True,
    lease_s: float = 30.0,
) -> dict[str, Any]:
    """Engine argument `kv_transfer_config` of a rehearsed prefill or decode server.

    Parameters
    ----------
    role, policy
        vLLM's `kv_role` and `kv_load_failure_policy`.
    latency_s, bytes_per_s, shared
        The link into a decode server; see `Link`.
    bytes_per_token
        What it moves per prompt token; whole blocks are moved.
    lease_s
        How long a prefill server holds blocks that nobody loads.
    """
    link = {"latency_s": latency_s, "bytes_per_s": bytes_per_s, "shared": shared}
    return {
        "kv_connector": "RehearsalConnector",
        "kv_connector_module_path": "profiler.engines.rehearsal.connector",
        "kv_role": role,
        "kv_load_failure_policy": policy,
        "kv_connector_extra_config": {
            "link": link,
            "bytes_per_token": bytes_per_token,
            "lease_s": lease_s,
        },
    }
