"""From vLLM's `SchedulerOutput` to the batch shape that the latency model takes."""

from __future__ import annotations

from typing import Any, NamedTuple

from profiler.latency.step_time import BatchShape
from profiler.steps import AFTER_CHUNKS, AFTER_DECODES, AFTER_IDLE


class ScheduledStep(NamedTuple):
    """One step that vLLM has scheduled."""

    batch: BatchShape
    num_running: int
    """running requests after scheduling"""
    request_ids: list[str]
    """requests that got tokens, in the engine's order"""
    gives_token: list[bool]
    """whether the request's known tokens are all computed after this step"""


class Batches:
    """Follows vLLM's requests from step to step."""

    def __init__(self) -> None:
        self._prompt_tokens: dict[str, int] = {}
        self._running: set[str] = set()
        self._follows = AFTER_IDLE

    def take(self, output: Any) -> ScheduledStep | None:
        """The shape of one `SchedulerOutput`; None for an empty one, after which vLLM is idle.

        Every call of vLLM's scheduler must be given, in order.
        """
        for request_id in output.finished_req_ids:
            self._prompt_tokens.pop(request_id, None)
            self._running.discard(request_id)
        self._running.difference_update(output.preempted_req_ids or ())
        scheduled: dict[str, int] = output.num_scheduled_tokens
        if not scheduled:
            self._follows = AFTER_IDLE
            return None
        self._running.update(scheduled)
        before, known = self._progress(output)
        batch = self._shape(scheduled, before)
        self._follows = AFTER_CHUNKS if batch.prefill_tokens else AFTER_DECODES
        gives = [before[i] + n >= known[i] for i, n in scheduled.items()]
        return ScheduledStep(batch, len(self._running), list(scheduled), gives)

    def _progress(self, output: Any) -> tuple[dict[str, int], dict[str, int]]:
        """Tokens computed before the step, and tokens known (outputs in flight included), of each
        request in it; as `Scheduler._update_after_schedule` decides `is_prefill_chunk`."""
        before, known = {}, {}
        for new in output.scheduled_new_reqs:
            prompt = len(new.prompt_token_ids)
            self._prompt_tokens[new.req_id] = prompt
            before[new.req_id] = new.num_computed_tokens
            # vLLM's second model runner gets preempted requests as new ones, outputs included
            known[new.req_id] = len(new.prefill_token_ids or ()) or prompt
        cached = output.scheduled_cached_reqs
        columns = (cached.req_ids, cached.num_computed_tokens, cached.num_output_tokens)
        for request_id, computed, outputs in zip(*columns, strict=True):
            before[request_id] = computed
            known[request_id] = self._prompt_tokens[request_id] + outputs
        return before, known

    def _shape(self, scheduled: dict[str, int], before: dict[str, int]) -> BatchShape:
        """Chunks and decodes summed up; the rules of `profiler.engines.step_file`."""
        tokens = chunks = context = decodes = decode_context = 0
        pairs = 0.0
        for request_id, n in scheduled.items():
            computed = before[request_id]
            if n > 1 or computed < self._prompt_tokens[request_id]:
                tokens += n
                chunks += 1
                context += computed
                pairs += n * (computed + (n + 1) / 2)
            else:
                decodes += 1
                decode_context += computed
        return BatchShape(tokens, chunks, pairs, context, decodes, decode_context, self._follows)
