"""From a configuration and a trace to what the kernels read, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from profiler.engine_config import NO_DRAFTER, EngineConfig, drafter_rules
from profiler.errors import KnobError
from profiler.traffic.trace import Trace
from tuner.simulator.memory import as_records
from tuner.simulator.state import FloatArray, IntArray, Limits, Requests

NUM_JITTER = 4096
"""length of the sequence of residuals that step times are multiplied by, over and over"""

BoolArray = npt.NDArray[np.bool_]


def resolved(config: EngineConfig, name: str) -> int:
    """A whole-number setting; KnobError when it is still left to the engine."""
    value = getattr(config, name)
    if value is None:
        raise KnobError(f"{name} must be resolved before a simulation; give it a value")
    return int(value)


def build_limits(config: EngineConfig, num_kv_blocks: int, prefix_tokens: int = 1) -> Limits:
    """The settings the rules read, for counted blocks and without a record.

    Parameters
    ----------
    config
        Fully resolved settings.
    num_kv_blocks
        KV blocks, the null block included.
    prefix_tokens
        Prompt tokens per prefix hash of the traffic.

    Raises
    ------
    KnobError
        A setting is missing, or two of them clash.
    """
    config.check()
    batched, seqs = resolved(config, "max_num_batched_tokens"), resolved(config, "max_num_seqs")
    budget = min(batched, config.max_num_scheduled_tokens or batched)
    active = config.max_num_active_seqs or seqs
    threshold = config.long_prefill_token_threshold or 0
    adaptive = threshold > 0 and bool(config.long_prefill_token_threshold_adaptive)
    block, priority = resolved(config, "block_size"), config.scheduling_policy == "priority"
    return Limits(
        token_budget=budget,
        adaptive_budget=batched,
        max_active=active,
        threshold=threshold,
        adaptive=adaptive,
        chunked=config.enable_chunked_prefill is not False,
        reserve_full=config.scheduler_reserve_full_isl is not False,
        watermark_blocks=int((config.watermark or 0.0) * num_kv_blocks),
        block_size=block,
        overlapped=bool(config.async_scheduling),
        may_starve=priority or budget < active or (adaptive and budget < batched),
        record_from_s=np.inf,
        record_until_s=np.inf,
        record_queues=False,
        timeline=False,
        priority=priority,
        caching=config.enable_prefix_caching is not False,
        identities=False,
        prefix_tokens=prefix_tokens,
        prefix_span=-(-prefix_tokens // block),
        closed_loop=False,
        turnaround_s=0.0,
        images=False,
        whole_images=bool(config.disable_chunked_mm_input),
        encoder_budget=batched,
        **drafter_limits(config),
        max_model_len=config.max_model_len or 0,
    )


def drafter_limits(config: EngineConfig) -> dict[str, Any]:
    """The fields of `Limits` that say what a drafter changes; nothing without one."""
    drafts = config.num_speculative_tokens or 0
    rules = drafter_rules(config.speculative_method, drafts) if drafts else NO_DRAFTER
    return {
        "num_drafts": drafts,
        "lookahead": rules.lookahead,
        "draft_slots": rules.draft_slots,
        "drops_hit": rules.drops_hit,
        "reads_ahead": rules.reads_ahead,
    }


def admissible(trace: Trace, config: EngineConfig, num_kv_blocks: int) -> BoolArray:
    """(N,) False for requests the engine refuses or could never finish.

    vLLM's front end refuses a prompt that leaves no room for one output token; a sequence that
    needs more blocks than the pool has would wait or preempt itself for ever. With drafts the need
    depends on luck; a sequence that can need more than the pool has counts as refused.
    """
    length, limits = resolved(config, "max_model_len"), build_limits(config, num_kv_blocks)
    slots = most_slots(trace.prompt_tokens, trace.output_tokens, limits)
    blocks = -(-slots // limits.block_size)
    fits: BoolArray = (trace.prompt_tokens < length) & (blocks <= num_kv_blocks - 1)
    if config.enable_chunked_prefill is False:
        fits &= trace.prompt_tokens <= limits.adaptive_budget - limits.draft_slots
    return fits


def most_slots(prompt: IntArray, output: IntArray, limits: Limits) -> IntArray:
    """(N,) KV slots that sequences of `prompt` and `output` tokens take at most: all tokens but the
    last, and drafts (of two steps when these overlap) and lookahead, cut by the model length."""
    longest: IntArray = np.minimum(prompt + output, limits.max_model_len) - 1
    if limits.num_drafts == 0:
        return longest
    drafts = limits.num_drafts * (2 if limits.overlapped else 1)
    return np.minimum(longest + drafts + limits.lookahead, limits.max_model_len)


def build_requests(
    trace: Trace, accepted: BoolArray, limits: Limits, frontend_in_s: float, max_model_len: int
) -> Requests:
    """The accepted requests as the kernel wants them."""
    prompt = trace.prompt_tokens[accepted].astype(np.int64)
    output = trace.output_tokens[accepted].astype(np.int64)
    klass = trace.request_class
    columns = Requests(
        visible_s=trace.arrival_s[accepted].astype(np.float64) + frontend_in_s,
        prompt_tokens=prompt,
        max_output=np.minimum(output, max_model_len - prompt),
        klass=np.zeros_like(prompt) if klass is None else klass[accepted].astype(np.int64),
        urgency=rank_urgency(trace, accepted) if limits.priority else np.zeros_like(prompt),
    )
    return as_records(columns)


def close_loop(requests: Requests, concurrency: int) -> None:
    """Send only the first `concurrency` requests, at 0; the kernel sends the others as answers
    come. Writes `visible_s`."""
    requests.visible_s[:concurrency] = requests.visible_s[0]
    requests.visible_s[concurrency:] = np.inf


def rank_urgency(trace: Trace, accepted: BoolArray) -> IntArray:
    """(accepted,) dense rank by (priority, arrival); requests without a priority have 0."""
    priority = np.zeros(trace.num_requests, np.int64) if trace.priority is None else trace.priority
    pairs = np.stack([priority[accepted].astype(np.float64), trace.arrival_s[accepted]], axis=1)
    _, rank = np.unique(pairs, axis=0, return_inverse=True)
    return rank.reshape(-1).astype(np.int64)


def draw_jitter(residuals: FloatArray, seed: int | None) -> FloatArray:
    """(NUM_JITTER,) factors drawn from the latency model's residuals, mean about 1."""
    if seed is None or residuals.size == 0:
        return np.ones(1)
    return np.random.default_rng(seed).choice(residuals, NUM_JITTER).astype(np.float64)
