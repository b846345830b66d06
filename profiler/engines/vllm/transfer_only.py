"""vLLM's own scheduler class with a KV connector that has no transport.

What `scheduler_only.py` is for one engine, this is for an engine of a prefill or a decode pool: the
connector says what NIXL's says (the whole prompt is loaded but the own prefix hits, blocks are held
after the end), and the ends of the transfers are reported by hand.
"""

from __future__ import annotations

from typing import Any, Protocol

from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
)
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.outputs import KVConnectorOutput
from vllm.v1.request import RequestStatus

from profiler.engines.vllm.scheduler_only import VERSION, SchedulerOnly

__all__ = ["VERSION", "NoTransport", "TransferSchedulerOnly", "make_transfer_scheduler"]


class NoTransport(KVConnectorBase_V1):  # type: ignore[misc]
    """The scheduler's side of a connector; nothing is ever moved."""

    started: list[tuple[int, list[int]]]
    """loads since the last look: request and the blocks that are loaded"""
    held: list[int]
    """requests that finished since and hold their blocks"""

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Workers only."""

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Workers only."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kw: Any) -> None:
        """Workers only."""

    def wait_for_save(self) -> None:
        """Workers only."""

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> Any:
        """Everything beyond the own hits is loaded, between steps."""
        if not request.kv_transfer_params["do_remote_prefill"]:
            return 0, False
        return request.num_prompt_tokens - num_computed_tokens, True

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """A load starts, once for each request."""
        if num_external_tokens > 0:
            size = self._vllm_config.cache_config.block_size
            hits = (request.num_prompt_tokens - num_external_tokens) // size
            self.started.append((int(request.request_id), blocks.get_block_ids()[0][hits:]))
        request.kv_transfer_params["do_remote_prefill"] = False

    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:
        """Nothing to tell the workers."""
        return KVConnectorMetadata()

    def request_finished(self, request: Any, block_ids: list[int]) -> Any:
        """A request with a hand-off holds its blocks until they are sent, unless it failed."""
        complete = request.status == RequestStatus.FINISHED_LENGTH_CAPPED
        holds = complete and request.kv_transfer_params["do_remote_decode"]
        if holds:
            self.held.append(int(request.request_id))
        return holds, None


class Move(Protocol):
    """What moves for one request."""

    remote: bool
    hands_over: bool
    fails: bool


class TransferSchedulerOnly(SchedulerOnly):
    """A `SchedulerOnly` with transfers.

    Parameters
    ----------
    settings
        As there.
    num_kv_blocks
        As there.
    role, policy
        vLLM's `kv_role` and `kv_load_failure_policy`.
    """

    def __init__(
        self, settings: dict[str, Any], num_kv_blocks: int, role: str, policy: str
    ) -> None:
        transfer = KVTransferConfig(
            kv_connector=NoTransport.__name__,
            kv_role=role,
            kv_load_failure_policy=policy,
            kv_connector_module_path=__name__,
        )
        super().__init__({**settings, "kv_transfer_config": transfer}, num_kv_blocks)
        self.connector: Any = self.scheduler.connector
        self.connector.started, self.connector.held = [], []
        self.failing: set[int] = set()
        self.loaded: dict[int, list[int]] = {}

    def expect(self, number: int, move: Move) -> None:
        """What moves for the request that has just been added."""
        params = {"do_remote_prefill": move.remote, "do_remote_decode": move.hands_over}
        self.scheduler.requests[f"{number:07d}"].kv_transfer_params = params
        if move.fails:
            self.failing.add(number)

    def take_started(self) -> list[int]:
        """Loads that the last schedule() call started."""
        started, self.connector.started = self.connector.started, []
        self.loaded.update(started)
        return [number for number, _ in started]

    def take_held(self) -> list[int]:
        """Requests that finished in the last update and hold their blocks."""
        held: list[int] = self.connector.held
        self.connector.held = []
        return held

    def report(self, received: list[int], sent: list[int]) -> None:
        """Transfers that the next update reports, in order; their ends are a set in vLLM, where
        any order may come."""
        failed = [b for r in received if r in self.failing for b in self.loaded[r]]
        self.reports = KVConnectorOutput(
            finished_recving=[f"{r:07d}" for r in received],
            finished_sending=[f"{r:07d}" for r in sent],
            invalid_block_ids=set(failed),
        )

    def report_idle(self) -> list[int]:
        """An update without a step, for reports only; returns who failed."""
        self.in_flight.append(SchedulerOutput.make_empty())
        return self.update({})

    def holding(self) -> list[int]:
        """Waiting requests that hold KV, in the order of their queue."""
        return [int(r.request_id) for r in self.scheduler.kv_holding_waiting]


class TransferCase(Protocol):
    """What `make_transfer_scheduler` reads of a case."""

    config: Any
    num_kv_blocks: int
    role: str
    policy: str


def make_transfer_scheduler(case: TransferCase) -> TransferSchedulerOnly:
    """The engine's scheduler for a case of the differential test."""
    return TransferSchedulerOnly(case.config.settings(), case.num_kv_blocks, case.role, case.policy)
