"""What Stallfree asks of an engine.

Life cycle
----------
1. `start_engine(spec)` returns an `Engine` that is ready: started, warmed up, its settings read
   back into `facts`. It raises `EngineStartError` otherwise, and leaves no process behind.
2. `replay(requests)` sends requests open loop and returns the time of every token; it may be
   called any number of times. It raises `EngineDiedError` or `EngineHungError`.
3. `take_steps()` hands over the steps recorded since it was last called.
4. `stop()` ends every process of the engine for certain; calling it again does nothing. An engine
   is a context manager that stops on exit; its processes also end when the parent is killed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from profiler.engine_config import EngineConfig
from profiler.outcomes import TokenTimes
from profiler.steps import StepSamples

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Progress = Callable[[int, int], None]
"""called with (requests finished, requests in all)"""


@dataclass(frozen=True)
class EngineSpec:
    """Which engine to start, on what, with which settings. Filled from the study file."""

    engine: str
    """name in `profiler.engines.ENGINES`"""
    model: str
    """folder with a config.json, or a model name"""
    config: EngineConfig = field(default_factory=EngineConfig)
    load_format: str = "auto"
    dtype: str = "auto"
    device: str = "auto"
    engine_args: dict[str, Any] = field(default_factory=dict)
    """further arguments of the engine, passed through unchanged"""
    environment: dict[str, str] = field(default_factory=dict)
    start_timeout_s: float = 180.0


@dataclass(frozen=True)
class EngineFacts:
    """What a started engine says of itself."""

    engine: str
    version: str
    device: str
    model: str
    resolved: EngineConfig
    """every setting, as the engine resolved it"""
    num_kv_blocks: int
    """blocks of the KV pool, the null block included"""
    model_shape: dict[str, Any]
    host: dict[str, Any]
    """processor, cores, memory"""


@dataclass(frozen=True)
class Requests:
    """N requests to send: when, how long, how many tokens to produce. Prompts are token ids made
    up by the engine driver from `seed`; no text is involved."""

    arrival_s: FloatArray
    """(N,) intended send time, seconds from the start of the replay; sorted"""
    prompt_tokens: IntArray
    """(N,) tokens"""
    output_tokens: IntArray
    """(N,) tokens to produce; the engine ignores end-of-sequence"""
    priority: IntArray | None = None
    """(N,) lower first"""
    prefix_hashes: IntArray | None = None
    """as `Trace.prefix_hashes`: prompts with equal leading ones start with equal tokens"""
    prefix_offsets: IntArray | None = None
    """as `Trace.prefix_offsets`"""
    prefix_block_tokens: int | None = None
    """prompt tokens per prefix hash"""
    step_budget: int | None = None
    """profiling only: most tokens per step while these requests run, at most the token budget"""
    seed: int = 0


def kv_blocks_at(budget: int, by_budget: Sequence[Sequence[int]]) -> int:
    """KV blocks at a token budget, from (token budget, KV blocks) pairs, ascending: linear between
    them, the nearest one beyond. The activations of larger steps leave room for fewer."""
    budgets, blocks = zip(*by_budget, strict=True)
    return int(np.interp(budget, budgets, blocks))


class Engine(Protocol):
    """A started engine; see the life cycle above."""

    facts: EngineFacts

    def replay(
        self,
        requests: Requests,
        *,
        deadline_s: float = 600.0,
        progress: Progress | None = None,
    ) -> TokenTimes:
        """Send `requests` at their times; return the time of every token.

        `deadline_s` is the longest silence (no token of any request) before `EngineHungError`.
        """
        ...

    def take_steps(self) -> StepSamples:
        """Steps recorded since the last call (sentinel flag false, speed 1, configuration 0)."""
        ...

    def stop(self) -> None:
        """End every process of the engine. Never raises."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...
