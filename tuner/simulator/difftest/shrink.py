"""A smaller case that still shows the difference, and the case in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from profiler.engine_config import EngineConfig
from profiler.errors import KnobError
from profiler.traffic.ragged import take_segments
from profiler.traffic.trace import IntArray, Trace
from tuner.simulator.difftest.cases import Case, images_of_request, prefix_hashes_of

MAX_TRIES = 400
"""cases tried while shrinking"""

SIMPLER: dict[str, Any] = {
    "num_speculative_tokens": 0,
    "max_num_scheduled_tokens": None,
    "max_num_active_seqs": None,
    "long_prefill_token_threshold_adaptive": None,
    "long_prefill_token_threshold": None,
    "watermark": 0.0,
    "scheduling_policy": "fcfs",
    "enable_prefix_caching": False,
    "async_scheduling": False,
    "scheduler_reserve_full_isl": True,
    "enable_chunked_prefill": True,
    "disable_chunked_mm_input": False,
}


def shrink(case: Case, differs: Callable[[Case], bool]) -> Case:
    """The smallest case found by trying simpler ones for as long as `differs` stays true."""
    tries = 0
    improved = True
    while improved and tries < MAX_TRIES:
        improved = False
        for smaller in simpler_cases(case):
            tries += 1
            if differs(smaller):
                case, improved = smaller, True
                break
            if tries == MAX_TRIES:
                break
    return case


def simpler_cases(case: Case) -> Iterator[Case]:
    """Cases a bit simpler than `case`, the boldest first."""
    n = case.trace.num_requests
    size = n // 2
    while size >= 1:
        for start in range(0, n, size):
            keep = np.r_[0:start, min(start + size, n) : n].astype(np.int64)
            if keep.size:
                yield replace(case, trace=take_requests(case.trace, keep))
        size //= 2
    yield from simpler_settings(case)
    for cut in (2, 4):
        longest = int(case.trace.output_tokens.max())
        if longest > 1:
            yield replace(case, trace=case.trace.cap(None, max(1, longest - longest // cut)))
        longest = int(case.trace.prompt_tokens.max())
        if longest > 1:
            yield replace(case, trace=case.trace.cap(max(1, longest - longest // cut)))


def simpler_settings(case: Case) -> Iterator[Case]:
    """The case with one setting, the priorities or the prefixes taken back."""
    for name, value in SIMPLER.items():
        if getattr(case.config, name) not in (None, value):
            config: EngineConfig = replace(case.config, **{name: value})
            try:
                config.check()
            except KnobError:
                continue
            yield replace(case, config=config)
    if case.trace.images is not None:
        yield replace(case, trace=replace(case.trace, images=None), encoder=None)
    if case.trace.priority is not None:
        yield replace(case, trace=replace(case.trace, priority=None))
    if case.trace.prefix_hashes is not None:
        bare = replace(case.trace, prefix_hashes=None, prefix_offsets=None)
        yield replace(case, trace=replace(bare, prefix_block_tokens=None))


def take_requests(trace: Trace, index: IntArray) -> Trace:
    """Some requests of `trace`, the first of them at 0 s."""
    hashes, offsets = trace.prefix_hashes, trace.prefix_offsets
    if hashes is not None and offsets is not None:
        hashes, offsets = take_segments(hashes, offsets, index)
    return replace(
        trace,
        arrival_s=trace.arrival_s[index] - trace.arrival_s[index[0]],
        prompt_tokens=trace.prompt_tokens[index],
        output_tokens=trace.output_tokens[index],
        priority=None if trace.priority is None else trace.priority[index],
        prefix_hashes=hashes,
        prefix_offsets=offsets,
        images=None if trace.images is None else trace.images.take(index),
    )


def describe_case(case: Case) -> str:
    """The case as text that can be typed in again."""
    trace = case.trace
    lines = [
        f"settings {json.dumps(case.config.settings())}",
        f"KV blocks {case.num_kv_blocks}, prefix blocks of {trace.prefix_block_tokens} tokens",
        f"encoder {case.encoder}, acceptance of drafts {case.acceptance}",
    ]
    for i in range(trace.num_requests):
        priority = 0 if trace.priority is None else trace.priority[i]
        lines.append(
            f"request {i}: at {trace.arrival_s[i]:g} s, prompt {trace.prompt_tokens[i]}, "
            f"output {trace.output_tokens[i]}, priority {priority}, "
            f"prefix hashes {prefix_hashes_of(trace, i)}, "
            f"images {images_of_request(trace, i)}"
        )
    return "\n".join(lines)
