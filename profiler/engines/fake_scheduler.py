"""The scheduling rules of the fake engine: a synchronous engine with chunked prefill.

Running requests first, in order of admission, then waiting ones in order of arrival; a token
budget, a cap per request while others are present, and a number of slots. KV memory never runs
out. The rules and their names are those of vLLM's `Scheduler.schedule`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from profiler.engine_config import EngineConfig


@dataclass
class FakeRequest:
    """One request inside the fake engine. Written by `FakeScheduler` alone."""

    number: int
    prompt_tokens: int
    output_tokens: int
    num_computed: int = 0
    token_s: list[float] = field(default_factory=list)
    """when each token was given out, on the engine's clock"""

    @property
    def num_known(self) -> int:
        return self.prompt_tokens + len(self.token_s)


Batch = list[tuple[FakeRequest, int]]
"""requests and their tokens in one step"""


class FakeScheduler:
    """Waiting and running requests under a fully resolved `config`."""

    def __init__(self, config: EngineConfig, step_budget: int | None) -> None:
        limits = (config.max_num_batched_tokens, config.max_num_scheduled_tokens, step_budget)
        self._budget = min(limit for limit in limits if limit is not None)
        self._input_budget = _given(config.max_num_batched_tokens)
        self._slots = _given(config.max_num_active_seqs)
        self._cap = _given(config.long_prefill_token_threshold)
        self._adaptive = bool(config.long_prefill_token_threshold_adaptive)
        self._block_size = _given(config.block_size)
        self.waiting: deque[FakeRequest] = deque()
        self.running: list[FakeRequest] = []

    def schedule(self) -> Batch:
        """What the next step processes; admits waiting requests into free slots."""
        left = self._budget
        num_present = len(self.running) + len(self.waiting)
        batch: Batch = []
        for request in self.running:
            if tokens := self._share(request, left, num_present):
                batch.append((request, tokens))
                left -= tokens
        while self.waiting and left > 0 and len(self.running) < self._slots:
            request = self.waiting.popleft()
            self.running.append(request)
            tokens = self._share(request, left, num_present)
            batch.append((request, tokens))
            left -= tokens
        return batch

    def give_out(self, batch: Batch, now_s: float) -> int:
        """Move the requests of a step that ended at `now_s` on; return how many have finished."""
        for request, tokens in batch:
            request.num_computed += tokens
            if request.num_computed == request.num_known:
                request.token_s.append(now_s)
        before = len(self.running)
        self.running = [r for r in self.running if len(r.token_s) < r.output_tokens]
        return before - len(self.running)

    def num_used_blocks(self) -> int:
        """KV blocks that the running requests' tokens need."""
        return sum(-(-r.num_known // self._block_size) for r in self.running)

    def _share(self, request: FakeRequest, left: int, num_present: int) -> int:
        """Tokens for `request`: what it still needs, within the cap and what is left."""
        need = request.num_known - request.num_computed
        if self._cap and num_present > 1:
            fair = self._input_budget // num_present if self._adaptive else 0
            need = min(need, max(self._cap, fair))
        return min(need, left)


def _given(value: int | None) -> int:
    assert value is not None  # resolved
    return value
