"""`CpuNixlConnector`: vLLM's NIXL connector for CPU engines on a machine with few cores.

vLLM loads it by `kv_connector_module_path`. It mends two things, both while the worker's side of
the connector is being made, in this process only, and on CPU only (vLLM 0.32, nixl 1.5.1):

* `nixl_agent` has UCX's progress thread poll without a pause, and so an idle engine burns a whole
  core. Here it pauses for `PAUSE_US`.
* `NixlBaseConnectorWorker` moves the thread that computes to the last core of the machine, which
  all engines of the machine then share. Here threads stay where the engine was bound.

It also records each transfer where `STALLFREE_TRANSFERS` says (see `transfer_file`).
"""

from __future__ import annotations

import os
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.connector import NixlPullConnector
from vllm.distributed.nixl_utils import NixlWrapper
from vllm.platforms import current_platform

from profiler.engines.transfer_file import LOAD, TRANSFERS_VARIABLE, WIRE

PAUSE_US = 1000
"""between two looks of the progress thread, microseconds"""


class CpuNixlConnector(NixlPullConnector):  # type: ignore[misc]  # vllm ships no types
    """Moves KV as its parent does; see above."""

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        if role == KVConnectorRole.WORKER and current_platform.is_cpu():
            with _pausing_progress(), _threads_left_alone():
                super().__init__(vllm_config, role, kv_cache_config)
        else:
            super().__init__(vllm_config, role, kv_cache_config)
        path = os.environ.get(TRANSFERS_VARIABLE)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._record_fd = None if path is None else os.open(path, flags, 0o600)
        self._loading: dict[str, tuple[float, int]] = {}

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """As the parent; also note when the load of a request starts."""
        super().update_state_after_alloc(request, blocks, num_external_tokens)
        if num_external_tokens > 0:
            self._loading[request.request_id] = (time.monotonic(), num_external_tokens)

    def update_connector_output(self, connector_output: Any) -> None:
        """As the parent; also record the loads that are over."""
        super().update_connector_output(connector_output)
        for request_id in connector_output.finished_recving or ():
            if (started := self._loading.pop(request_id, None)) is not None:
                self._record(LOAD, started[0], time.monotonic(), started[1])

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> Any:
        """As the parent; also forget a load whose request was aborted."""
        self._loading.pop(request.request_id, None)
        return super().request_finished_all_groups(request, block_ids)

    def get_kv_connector_stats(self) -> Any:
        """As the parent; also record what the transport timed."""
        stats = super().get_kv_connector_stats()
        if stats is not None:
            names = ("transfer_duration", "post_duration", "bytes_transferred")
            for row in zip(*(stats.data[name] for name in names), strict=True):
                self._record(WIRE, *row)
        return stats

    def _record(self, *row: float) -> None:
        if self._record_fd is not None:
            os.write(self._record_fd, array("d", row).tobytes())


@contextmanager
def _pausing_progress() -> Iterator[None]:
    """Agents made meanwhile have a progress thread that pauses."""
    bindings = sys.modules[NixlWrapper.__module__].nixlBind
    config = bindings.nixlAgentConfig

    class Pausing(config):  # type: ignore[misc, valid-type]
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, PAUSE_US if name == "pthrDelay" else value)

    bindings.nixlAgentConfig = Pausing
    try:
        yield
    finally:
        bindings.nixlAgentConfig = config


@contextmanager
def _threads_left_alone() -> Iterator[None]:
    """Threads can meanwhile not be moved to other cores."""
    move = os.sched_setaffinity
    os.sched_setaffinity = lambda pid, mask: None
    try:
        yield
    finally:
        os.sched_setaffinity = move
