"""`RecordingScheduler`: vLLM's scheduler, writing one record per step (see `step_file`).

It is handed to vLLM through the `scheduler_cls` setting; nothing is patched. It derives from
`AsyncScheduler`, which behaves exactly as the plain scheduler in a synchronous engine, while the
plain one would halve the decode rate of an asynchronous engine.
"""

from __future__ import annotations

import os
import time
from array import array
from collections import deque
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from profiler.engines.vllm.session import end_with_parent
from profiler.engines.vllm.spec import BUDGET_ARGUMENT

STEPS_VARIABLE = "STALLFREE_STEPS"
"""environment variable: path of the step file"""


class RecordingScheduler(AsyncScheduler):  # type: ignore[misc]  # vllm ships no types
    """Schedules as its parent does, and records what each step did and took."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.max_num_scheduled_tokens: int
        end_with_parent()
        path = os.environ[STEPS_VARIABLE]
        self._steps_fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._configured_budget: int = self.max_num_scheduled_tokens
        self._request_number: dict[str, int] = {}
        self._num_added = 0
        self._in_flight: deque[tuple[array[float], float]] = deque()
        self._last_output_s = float("nan")

    def add_request(self, request: Any) -> None:
        """As the parent; also number the request and obey its profiling-only step budget."""
        self._request_number[request.request_id] = self._num_added
        self._num_added += 1
        params = request.sampling_params
        asked = ((params and params.extra_args) or {}).get(BUDGET_ARGUMENT)
        configured = self._configured_budget
        self.max_num_scheduled_tokens = configured if asked is None else min(asked, configured)
        super().add_request(request)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """As the parent; also open this step's record."""
        start_s = time.monotonic()
        output = super().schedule(*args, **kwargs)
        end_s = time.monotonic()
        self._in_flight.append((self._open_record(output, start_s, end_s), end_s))
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """As the parent; also close and write the record of the step that ended.

        Steps end in the order they were scheduled in, so the oldest open record is this one.
        """
        output_s = time.monotonic()
        record, scheduled_s = self._in_flight.popleft()
        last_s = self._last_output_s
        if record[0]:  # an empty step only tells the workers who has finished
            began_s = last_s if last_s > scheduled_s else scheduled_s  # last_s may be NaN
            record[3] = output_s - began_s
            record[4] = output_s - last_s
            os.write(self._steps_fd, record.tobytes())
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        busy = self.has_unfinished_requests() or bool(self._in_flight)
        self._last_output_s = output_s if busy else float("nan")
        return outputs

    def _open_record(self, output: Any, start_s: float, end_s: float) -> array[float]:
        numbers, requests = self._request_number, self.requests
        scheduled = output.num_scheduled_tokens
        free = self.kv_cache_manager.block_pool.get_num_free_blocks()
        waiting = len(self.waiting) + len(self.kv_holding_waiting)
        row = [len(scheduled), start_s, end_s - start_s, 0.0, 0.0, len(self.running), waiting, free]
        for request_id, tokens in scheduled.items():
            request = requests[request_id]
            before = request.num_computed_tokens - tokens  # schedule() has already moved it on
            # recomputed outputs of a preempted request come in chunks, too
            chunk = before < request.num_prompt_tokens or tokens > 1
            row += (numbers[request_id], tokens, before, chunk)
        for request_id in output.finished_req_ids:
            numbers.pop(request_id, None)
        return array("d", row)
