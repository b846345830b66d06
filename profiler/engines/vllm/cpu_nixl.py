"""`CpuNixlConnector`: vLLM's NIXL connector for CPU engines on a machine with few cores.

vLLM loads it by `kv_connector_module_path`. It mends two things, both while the worker's side of
the connector is being made, in this process only, and on CPU only (vLLM 0.32, nixl 1.5.1):

* `nixl_agent` has UCX's progress thread poll without a pause, and so an idle engine burns a whole
  core. Here it pauses (`resting_progress_thread`).
* `NixlBaseConnectorWorker` moves the thread that computes to the last core of the machine, which
  all engines of the machine then share. Here threads stay where the engine was bound.

It also records what moved when (`transfers`), as the scheduler sees it, and how long each read took
by NIXL's own clock (`wire`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.connector import NixlPullConnector
from vllm.distributed.nixl_utils import NixlWrapper
from vllm.platforms import current_platform

from profiler.engines.progress_thread import resting_progress_thread
from profiler.engines.rehearsal.transfers import Moment, TransferWriter
from profiler.engines.vllm.recorder import STEPS_VARIABLE
from profiler.engines.wire import wire_writer


class CpuNixlConnector(NixlPullConnector):  # type: ignore[misc]  # vllm ships no types
    """Moves KV as its parent does; see above."""

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        if role == KVConnectorRole.WORKER and current_platform.is_cpu():
            with resting_progress_thread(NixlWrapper), _threads_left_alone():
                super().__init__(vllm_config, role, kv_cache_config)
        else:
            super().__init__(vllm_config, role, kv_cache_config)
        steps = Path(os.environ[STEPS_VARIABLE])
        self._file, self._wire = TransferWriter(steps), wire_writer(steps)

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """As the parent; also note when a load starts."""
        super().update_state_after_alloc(request, blocks, num_external_tokens)
        if num_external_tokens > 0:
            self._file.write(request.request_id, Moment.STARTED, time.monotonic())

    def update_connector_output(self, connector_output: Any) -> None:
        """As the parent; also note the transfers that are over."""
        super().update_connector_output(connector_output)
        now_s = time.monotonic()
        for request_id in connector_output.finished_recving or ():
            self._file.write(request_id, Moment.LOADED, now_s)
        for request_id in connector_output.finished_sending or ():
            self._file.write(request_id, Moment.RELEASED, now_s)

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> Any:
        """As the parent; also note when blocks are held for a decode engine."""
        held, params = super().request_finished_all_groups(request, block_ids)
        if held:
            self._file.write(request.request_id, Moment.HELD, time.monotonic())
        return held, params

    def get_kv_connector_stats(self) -> Any:
        """As the parent; also record what NIXL timed."""
        stats = super().get_kv_connector_stats()
        if stats is not None:
            names = ("transfer_duration", "post_duration", "bytes_transferred")
            for row in zip(*(stats.data[name] for name in names), strict=True):
                self._wire.write(*row)
        return stats


@contextmanager
def _threads_left_alone() -> Iterator[None]:
    """Threads can meanwhile not be moved to other cores."""
    move = os.sched_setaffinity
    os.sched_setaffinity = lambda pid, mask: None
    try:
        yield
    finally:
        os.sched_setaffinity = move
