"""The worker's part in a KV transfer: what vLLM's model runners do with their connector."""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.v1.outputs import KVConnectorOutput


class WorkerMoves:
    """The connector of a worker, or none.

    As `KVConnectorModelRunnerMixin._get_kv_connector_output`: loads start with a step, and what
    has ended is asked for at the end of it.
    """

    def __init__(self, vllm_config: Any, kv_cache_config: Any) -> None:
        self._connector: Any = None
        if vllm_config.kv_transfer_config is not None:
            self._connector = KVConnectorFactory.create_connector(
                vllm_config, KVConnectorRole.WORKER, kv_cache_config
            )

    def begin(self, scheduler_output: Any) -> None:
        """A step starts."""
        if self._connector is not None:
            self._connector.bind_connector_metadata(scheduler_output.kv_connector_metadata)
            self._connector.start_load_kv(None)
            self._connector.clear_connector_metadata()

    def end(self) -> Any:
        """What a step that ends now reports; None without a connector."""
        if self._connector is None:
            return None
        sent, received = self._connector.get_finished(set())
        return KVConnectorOutput(finished_sending=sent, finished_recving=received)
