"""Random small cases for comparing the kernel: settings, traffic and a tight KV pool."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from profiler.engine_config import EngineConfig
from profiler.traffic.trace import Trace


@dataclass(frozen=True)
class Case:
    config: EngineConfig
    trace: Trace
    num_kv_blocks: int
    arrival_step: tuple[int, ...]
    """before which schedule() call each request arrives, for drivers without a clock"""


def random_settings(rng: random.Random) -> dict[str, Any]:
    budget = rng.choice((8, 24, 32, 64, 100, 256))
    seqs = min(rng.choice((1, 2, 4, 8)), budget)
    settings: dict[str, Any] = {
        "max_num_batched_tokens": budget,
        "max_num_seqs": seqs,
        "block_size": rng.choice((4, 16)),
        "enable_prefix_caching": False,
        "async_scheduling": rng.random() < 0.5,
        "scheduler_reserve_full_isl": rng.random() < 0.6,
        "watermark": rng.choice((0.0, 0.0, 0.05, 0.3)),
        "max_model_len": rng.choice((128, 256, 4096)),
        "scheduling_policy": "fcfs",
    }
    if rng.random() < 0.5:
        settings["long_prefill_token_threshold"] = rng.choice((4, 16, 40, 100))
        settings["long_prefill_token_threshold_adaptive"] = rng.random() < 0.5
    if rng.random() < 0.2:
        settings["max_num_active_seqs"] = rng.randint(1, seqs)
    if rng.random() < 0.3:
        settings["max_num_scheduled_tokens"] = rng.randint(max(1, budget // 8), budget)
    if rng.random() < 0.1:
        settings |= {"enable_chunked_prefill": False, "max_model_len": 128}
        settings |= {"max_num_batched_tokens": 256, "max_num_seqs": 8}
        settings.pop("max_num_scheduled_tokens", None)
    if rng.random() < 0.25:  # several partial prefills at once in a tiny pool
        settings |= {"max_num_batched_tokens": rng.choice((12, 16, 20)), "max_num_seqs": 8}
        settings |= {"long_prefill_token_threshold": rng.choice((3, 5, 8))}
        settings |= {"scheduler_reserve_full_isl": False, "max_model_len": 256}
        settings |= {"enable_chunked_prefill": True, "watermark": 0.0}
        settings.pop("max_num_scheduled_tokens", None)
        settings.pop("max_num_active_seqs", None)
    return settings


def random_case(seed: int) -> Case:
    """Case number `seed`; the same one every time."""
    rng = random.Random(seed)
    settings = random_settings(rng)
    length, block = settings["max_model_len"], settings["block_size"]
    longest = min(rng.choice((20, 60, 120)), length - 2)
    count = rng.randint(3, 25)
    prompts = [rng.randint(1, longest) for _ in range(count)]
    outputs = [rng.randint(1, 40) for _ in range(count)]
    steps, step, times, now = [], 0, [], 0.0
    for _ in range(count):
        steps.append(step)
        times.append(now)
        step += rng.choice((0, 0, 0, 1, 2, 10))
        now += rng.choice((0.0, 0.0, 0.003, 0.01, 0.1, 0.5))
    biggest = max(min(p + o, length) for p, o in zip(prompts, outputs, strict=True))
    spare = rng.choice((0, 0, 1, 2, 3, 5, 8, 20, 200))
    trace = Trace(
        arrival_s=np.array(times),
        prompt_tokens=np.array(prompts, dtype=np.int64),
        output_tokens=np.array(outputs, dtype=np.int64),
    )
    config = EngineConfig.from_settings(settings)
    return Case(config, trace, 1 + -(-biggest // block) + spare, tuple(steps))
