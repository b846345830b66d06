"""Closed-form work of an average request, and the fleets that it suggests to try first.

No queue and no burst is in it: a step-latency model, mean lengths and the SLOs give GPU-seconds per
request in each phase, whose ratio is a good P:D. The search goes on from there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from profiler.engine_config import EngineConfig
from profiler.latency.base import StepTimeModel
from profiler.latency.step_time import BatchColumns, fill_times
from profiler.steps import AFTER_CHUNKS, AFTER_DECODES
from tuner.search.objective import Problem
from tuner.search.settings import resolve

MOST_DECODES = 4096
"""of one step, as far as is looked"""


@dataclass(frozen=True)
class Work:
    """Seconds that one replica spends on an average request, when it has always enough of them."""

    prefill_s: float
    decode_s: float

    @property
    def both_s(self) -> float:
        return self.prefill_s + self.decode_s


def request_work(one: Problem, config: EngineConfig) -> Work:
    """Work of the average request of `one.trace` on a replica with `config`."""
    full = resolve(config, one.resolved)
    prompt = float(one.trace.prompt_tokens.mean())
    output = float(one.trace.output_tokens.mean())
    overlapped = bool(full.async_scheduling)
    return Work(
        prefill_s(one.model, prompt, full.max_num_batched_tokens or 2048, overlapped),
        output * decode_interval_s(one, full, prompt + output / 2),
    )


def prefill_s(model: StepTimeModel, prompt: float, budget: int, overlapped: bool) -> float:
    """Seconds per prompt of `prompt` tokens when every step is full of them, up to `budget`."""
    if prompt <= budget:
        count = int(budget // prompt)
        parts, tokens, context = 1.0 / count, count * prompt, 0.0
        pairs = count * prompt * prompt / 2
    else:
        count, parts, tokens, context = 1, prompt / budget, float(budget), prompt / 2
        pairs = budget * prompt / 2
    batch = BatchColumns(
        prefill_tokens=np.array([round(tokens)]),
        num_prefills=np.array([count]),
        attention_pairs=np.array([pairs]),
        chunk_context=np.array([round(context)]),
        num_decodes=np.zeros(1, dtype=np.int64),
        decode_context=np.zeros(1, dtype=np.int64),
        follows=np.array([AFTER_CHUNKS]),
    )
    return parts * _interval_s(model, batch, count, overlapped)


def decode_interval_s(one: Problem, full: EngineConfig, context: float) -> float:
    """Seconds of a decode step per sequence, at the largest batch that the sequence limit, the KV
    cache and the tightest ITL limit allow."""
    kv_tokens = one.kv_blocks(full) * (full.block_size or 16)
    most = max(1, min(full.max_num_seqs or MOST_DECODES, int(kv_tokens / context), MOST_DECODES))
    limit_s = np.nanmin([*one.slo.itl_limit_s, math.inf])

    def interval_s(count: int) -> float:
        none = np.zeros(1, dtype=np.int64)
        batch = BatchColumns(
            prefill_tokens=none,
            num_prefills=none,
            attention_pairs=np.zeros(1),
            chunk_context=none,
            num_decodes=np.array([count]),
            decode_context=np.array([round(count * context)]),
            follows=np.array([AFTER_DECODES]),
        )
        return _interval_s(one.model, batch, count, bool(full.async_scheduling))

    low, high = 1, most + 1
    while high - low > 1:  # the largest batch within the limit; times grow with the batch
        middle = (low + high) // 2
        low, high = (middle, high) if interval_s(middle) <= limit_s else (low, middle)
    return interval_s(low) / low


def _interval_s(
    model: StepTimeModel, batch: BatchColumns, num_running: int, overlapped: bool
) -> float:
    out = np.empty((1, 2))
    fill_times(model.params, batch, np.array([num_running]), overlapped, out)
    return float(out[0, 1])
