"""`RehearsalConnector`: vLLM's side of a KV transfer that takes its time and moves nothing.

To the scheduler it does what vLLM's NIXL connector does (`nixl/pull_scheduler.py`): a prefill
server holds the blocks of a finished request until they have been read; a decode server loads the
whole prompt but its own prefix hits, between steps, and is told when the load is over. The load
takes the time of a `Link`. Its end is sent to the prefill server as one datagram on 127.0.0.1, as
NIXL sends a notification; blocks that nobody reads are given back after a lease.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
    SupportsHMA,
)
from vllm.v1.request import RequestStatus

from profiler.engines.rehearsal.link import Link
from profiler.engines.rehearsal.transfers import Moment, TransferWriter
from profiler.engines.vllm.recorder import STEPS_VARIABLE

_HOST = "127.0.0.1"
_NOTICES: list[socket.socket] = []
"""of this process: scheduler and worker of a rehearsal share one"""


@dataclass
class Load:
    """A prompt to load."""

    request_id: str
    num_blocks: int
    """0 when all of it was in the own cache: then the sender is only told"""
    remote: str
    """the request at its prefill server"""
    port: int
    """where that server hears that its blocks were read"""


@dataclass
class Moves(KVConnectorMetadata):  # type: ignore[misc]  # vllm ships no types
    """From the scheduler to the worker, once for each step."""

    loads: list[Load] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    """requests that have finished and hold their blocks"""


class RehearsalConnector(KVConnectorBase_V1, SupportsHMA):  # type: ignore[misc]
    """Either side of a transfer; see the module."""

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        extra = self._kv_transfer_config.kv_connector_extra_config
        self._moves = Moves()
        self._file = TransferWriter(Path(os.environ[STEPS_VARIABLE]))
        if role == KVConnectorRole.WORKER:
            self._link = Link(**extra["link"])
            block_size = vllm_config.cache_config.block_size
            self._block_bytes = extra["bytes_per_token"] * block_size
            self._lease_s = extra["lease_s"]
            self._loading: dict[str, Load] = {}
            self._held: dict[str, float] = {}
            self._read: set[str] = set()

    # The scheduler's side

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> Any:
        """All of the prompt beyond the own hits is loaded, between steps."""
        params = request.kv_transfer_params or {}
        count = request.num_prompt_tokens - num_computed_tokens
        return (count, True) if params.get("do_remote_prefill") and count > 0 else (0, False)

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """A load starts, once for each request."""
        params = request.kv_transfer_params or {}
        if not params.get("do_remote_prefill"):
            return
        loaded = blocks.get_unhashed_block_ids() if num_external_tokens > 0 else []
        self._load(request, len(loaded))

    def _load(self, request: Any, num_blocks: int) -> None:
        params = request.kv_transfer_params
        remote, port = params["remote_request_id"], params["remote_port"]
        self._moves.loads.append(Load(request.request_id, num_blocks, remote, port))
        params["do_remote_prefill"] = False

    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:
        """What has come up since the last step."""
        moves, self._moves = self._moves, Moves()
        return moves

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> Any:
        """A prefill that is complete holds its blocks, and says how to read them."""
        params = request.kv_transfer_params or {}
        if params.get("do_remote_prefill"):  # ended before its load: its sender need not wait
            self._load(request, 0)
            return False, None
        complete = request.status == RequestStatus.FINISHED_LENGTH_CAPPED
        if not (params.get("do_remote_decode") and complete):
            return False, None
        self._moves.held.append(request.request_id)
        self._file.write(request.request_id, Moment.HELD, time.monotonic())
        return True, {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": block_ids,
            "remote_engine_id": self._kv_transfer_config.engine_id,
            "remote_request_id": request.request_id,
            "remote_host": _HOST,
            "remote_port": _notices().getsockname()[1],
        }

    def request_finished(self, request: Any, block_ids: list[int]) -> Any:
        """As `request_finished_all_groups`, for one group."""
        return self.request_finished_all_groups(request, (block_ids,))

    # The worker's side

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Start the step's loads, and hold what it has finished."""
        moves = self._get_connector_metadata()
        assert isinstance(moves, Moves)
        now_s = time.monotonic()
        self._held.update((request_id, now_s + self._lease_s) for request_id in moves.held)
        for load in moves.loads:
            if load.num_blocks == 0:
                _tell(load)
                continue
            self._loading[load.request_id] = load
            self._link.start(load.request_id, load.num_blocks * self._block_bytes, now_s)
            self._file.write(load.request_id, Moment.STARTED, now_s)

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str], set[str]]:
        """Requests whose blocks were read, and requests whose load is over."""
        now_s = time.monotonic()
        loaded = self._link.take_ended(now_s)
        for request_id, end_s in loaded.items():
            _tell(self._loading.pop(request_id))
            self._file.write(request_id, Moment.LOADED, end_s)
        self._read |= _heard()
        sent = {r for r, until_s in self._held.items() if r in self._read or until_s <= now_s}
        for request_id in sent:
            del self._held[request_id]
            self._file.write(request_id, Moment.RELEASED, now_s)
        self._read -= sent
        return sent, set(loaded)

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Loads go on between steps."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kw: Any) -> None:
        """Blocks are read where they are."""

    def wait_for_save(self) -> None:
        """Nothing is saved."""


def _notices() -> socket.socket:
    """Where this process hears that blocks were read."""
    if not _NOTICES:
        heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        heard.bind((_HOST, 0))
        heard.setblocking(False)
        _NOTICES.append(heard)
    return _NOTICES[0]


def _tell(load: Load) -> None:
    """Tell the prefill server that the blocks were read; it may be gone."""
    _notices().sendto(load.remote.encode(), (_HOST, load.port))


def _heard() -> set[str]:
    """Requests whose blocks were read."""
    found = set()
    while True:
        try:
            found.add(_notices().recv(1 << 12).decode())
        except BlockingIOError:
            return found
        except ConnectionRefusedError:  # of an earlier notice, to a server that is gone
            continue
