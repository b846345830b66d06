"""A deterministic engine with a known latency model, in virtual time: nothing sleeps, no model.

For documentation, for tests, and for trying Stallfree out without an engine. It batches by
`fake_scheduler`, and its KV pool never runs out. Between two outputs of a busy engine it takes

    interval = HOST_S + exec
    exec     = (STEP_S + PREFILL_TOKEN_S * prefill tokens + DECODE_S * decodes
                + PAIR_S * attention pairs of the chunks + CONTEXT_S * context of the decodes)
               * (1 + drift * sin(2 pi t / DRIFT_PERIOD_S)) * noise factor

where t is the engine's clock and the noise factor is lognormal with mean 1.

`EngineSpec.engine_args`: `noise` (standard deviation of its logarithm, 0), `drift` (0), `seed`
(of the noise, 0), `die_at_request` and `hang_at_request` (number of the request in a replay at
whose admission the engine dies or falls silent).
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from profiler.engine_config import EngineConfig
from profiler.engines.base import EngineFacts, EngineSpec, Progress, Requests
from profiler.engines.fake_scheduler import Batch, FakeRequest, FakeScheduler
from profiler.engines.step_file import ENTRY, HEADER, StepRecords, step_samples
from profiler.errors import EngineDiedError, EngineHungError, EngineStartError
from profiler.hardware import this_machine
from profiler.outcomes import TokenTimes
from profiler.steps import StepSamples

HOST_S = 0.5e-3
STEP_S = 4e-3
PREFILL_TOKEN_S = 60e-6
DECODE_S = 0.1e-3
PAIR_S = 5e-9
CONTEXT_S = 50e-9
DRIFT_PERIOD_S = 120.0
PAUSE_S = 1.0
"""idle time on the engine's clock after each replay"""
NUM_KV_BLOCKS = 1 << 16
MODEL_SHAPE: dict[str, Any] = {
    "num_layers": 4,
    "num_heads": 8,
    "num_kv_heads": 4,
    "head_size": 32,
    "hidden_size": 256,
    "vocab_size": 4096,
    "dtype": "float32",
}
OPTIONS: dict[str, Any] = {
    "noise": 0.0,
    "drift": 0.0,
    "seed": 0,
    "die_at_request": None,
    "hang_at_request": None,
}

DEFAULTS = EngineConfig(
    max_num_batched_tokens=2048,
    max_num_scheduled_tokens=2048,
    max_num_seqs=128,
    max_num_active_seqs=128,
    long_prefill_token_threshold=0,
    long_prefill_token_threshold_adaptive=False,
    scheduler_reserve_full_isl=True,
    enable_chunked_prefill=True,
    watermark=0.0,
    scheduling_policy="fcfs",
    enable_prefix_caching=False,
    async_scheduling=False,
    max_model_len=16384,
    block_size=16,
    num_gpu_blocks_override=NUM_KV_BLOCKS,
    disable_chunked_mm_input=False,
    num_speculative_tokens=0,
)


class FakeEngine:
    """See the top of this file; the contract is `profiler.engines.base.Engine`."""

    facts: EngineFacts

    def __init__(self, spec: EngineSpec) -> None:
        spec.config.check()
        self._options = {**OPTIONS, **spec.engine_args}
        if unknown := sorted(set(self._options) - set(OPTIONS)):
            raise EngineStartError(
                f"the fake engine has no argument {unknown[0]!r}; it knows {', '.join(OPTIONS)}"
            )
        self._rng = np.random.default_rng(self._options["seed"])
        self.facts = EngineFacts(
            engine="fake",
            version="1",
            device="none",
            model=spec.model,
            resolved=_resolve(spec.config),
            num_kv_blocks=spec.config.num_gpu_blocks_override or NUM_KV_BLOCKS,
            model_shape=dict(MODEL_SHAPE),
            host=this_machine().to_dict(),
        )
        self._clock_s = 0.0
        self._headers: list[list[float]] = []
        self._entries: list[list[float]] = []
        self._stopped = False

    def replay(
        self,
        requests: Requests,
        *,
        deadline_s: float = 600.0,
        progress: Progress | None = None,
    ) -> TokenTimes:
        """See `Engine.replay`; dies or hangs where `engine_args` say so."""
        if self._stopped:
            raise EngineDiedError("the engine was stopped; start another one")
        run = _Run(self, requests, deadline_s)
        total = requests.arrival_s.size
        while run.has_work():
            run.step()
            if progress:
                progress(run.num_done, total)
        origin_s, self._clock_s = self._clock_s, run.now_s + PAUSE_S
        return TokenTimes(
            intended_s=requests.arrival_s,
            sent_s=requests.arrival_s.copy(),
            token_s=[np.array(r.token_s) - origin_s for r in run.requests],
            prompt_tokens=requests.prompt_tokens,
            failed=run.failed,
            origin_s=origin_s,
        )

    def take_steps(self) -> StepSamples:
        """See `Engine.take_steps`."""
        header = np.array(self._headers, dtype=np.float64).reshape(-1, HEADER)
        entry = np.array(self._entries, dtype=np.float64).reshape(-1, ENTRY)
        self._headers, self._entries = [], []
        return step_samples(StepRecords(header, entry))

    def stop(self) -> None:
        """See `Engine.stop`."""
        self._stopped = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def meet(self, number: int, deadline_s: float) -> None:
        """Die or fall silent if this is the request to do it at."""
        for option, error, what in (
            ("die_at_request", EngineDiedError, "died, as told by engine_args"),
            ("hang_at_request", EngineHungError, f"gave no token for {deadline_s:g} s"),
        ):
            if self._options[option] == number:
                self._stopped = True
                raise error(f"the fake engine {what}, at request {number}")

    def execute(self, batch: Batch, start_s: float) -> float:
        """Seconds on the device of `batch`, by the formula at the top."""
        seconds = STEP_S
        for request, tokens in batch:
            before = request.num_computed
            if before < request.prompt_tokens:
                pairs = tokens * (before + (tokens + 1) / 2)
                seconds += PREFILL_TOKEN_S * tokens + PAIR_S * pairs
            else:
                seconds += DECODE_S + CONTEXT_S * before
        drift = 1 + self._options["drift"] * math.sin(2 * math.pi * start_s / DRIFT_PERIOD_S)
        sigma = self._options["noise"]
        return float(seconds * drift * math.exp(self._rng.normal(-(sigma**2) / 2, sigma)))

    def record(self, header: list[float], batch: Batch) -> None:
        """Keep one step's record (before its requests move on)."""
        self._headers.append(header)
        for request, tokens in batch:
            chunk = request.num_computed < request.prompt_tokens
            self._entries.append([request.number, tokens, request.num_computed, chunk])

    @property
    def clock_s(self) -> float:
        """The engine's clock when no replay runs, seconds."""
        return self._clock_s


class _Run:
    """One replay: the engine's queues and its clock."""

    def __init__(self, engine: FakeEngine, requests: Requests, deadline_s: float) -> None:
        self._engine = engine
        self._deadline_s = deadline_s
        config = engine.facts.resolved
        self._queues = FakeScheduler(config, requests.step_budget)
        self.now_s = engine.clock_s
        longest = config.max_model_len
        assert longest is not None  # resolved
        # as vLLM: a prompt that leaves no room for a token is refused, an output is cut
        too_long = requests.prompt_tokens >= longest
        output = np.minimum(requests.output_tokens, longest - requests.prompt_tokens)
        lengths = zip(requests.prompt_tokens.tolist(), output.tolist(), strict=True)
        self.requests = [FakeRequest(i, p, o) for i, (p, o) in enumerate(lengths)]
        self.failed: npt.NDArray[np.bool_] = too_long
        self.num_done = int(too_long.sum())
        arrival_s = (requests.arrival_s + self.now_s).tolist()
        self._coming = deque(
            (t, r) for t, r in zip(arrival_s, self.requests, strict=True) if not too_long[r.number]
        )
        self._last_output_s = math.nan

    def has_work(self) -> bool:
        return bool(self._coming or self._queues.waiting or self._queues.running)

    def step(self) -> None:
        """Wait for work if there is none; then schedule, execute and give out one step."""
        queues = self._queues
        if not (queues.waiting or queues.running):
            self.now_s = max(self.now_s, self._coming[0][0])
            self._last_output_s = math.nan
        while self._coming and self._coming[0][0] <= self.now_s:
            queues.waiting.append(self._coming.popleft()[1])
        batch = queues.schedule()
        for request, _ in batch:
            self._engine.meet(request.number, self._deadline_s)
        start_s = self.now_s
        exec_s = self._engine.execute(batch, start_s)
        self.now_s = start_s + HOST_S + exec_s
        interval_s = self.now_s - self._last_output_s
        lengths = [len(queues.running), len(queues.waiting)]
        free = max(0, self._engine.facts.num_kv_blocks - 1 - queues.num_used_blocks())
        header = [len(batch), start_s, HOST_S, exec_s, interval_s, *lengths, free]
        self._engine.record(header, batch)
        self._last_output_s = self.now_s
        self.num_done += queues.give_out(batch, self.now_s)


def _resolve(config: EngineConfig) -> EngineConfig:
    """All settings in force: what follows from a given one, else the default."""
    budget, seqs = config.max_num_batched_tokens, config.max_num_seqs
    derived = EngineConfig(max_num_scheduled_tokens=budget, max_num_active_seqs=seqs)
    return config.over(derived).over(DEFAULTS)
