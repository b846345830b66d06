"""Which batch shapes to sample, as episodes: a few requests under one step budget.

One episode walks through many shapes by itself: prompts that are cut by the step budget give chunks
at every cached context, requests that have their first token decode beside them, and outputs of
unequal length let the decode batch shrink step by step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profiler.engines.base import EngineFacts, Requests
from profiler.traffic.trace import Trace

FloatArray = npt.NDArray[np.float64]

EPISODE_S = 1.2
"""what an episode should take, roughly"""
_MOST_CHUNKS = 40
"""chunks of one prompt; more steps of one kind would add little"""
_NUM_DROPS = 5
_ROUND = ("walk",) * 3 + ("pack",) * 2 + ("crowd",) * 4 + ("mix",) * 4 + ("drop",) * 4


@dataclass(frozen=True)
class Limits:
    """What one engine can be asked, and how fast it is."""

    step_budget: int
    """tokens per step"""
    num_seqs: int
    """running requests"""
    request_tokens: int
    """prompt and output of one request"""
    kv_tokens: int
    """tokens that fit the KV pool"""
    block_size: int
    """tokens per block"""
    prefill_token_s: float
    """seconds per prompt token, roughly"""
    decode_s: float
    """seconds of a decode step, roughly"""

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens that fit one episode's time, and the KV pool."""
        in_time = int(0.6 * EPISODE_S / self.prefill_token_s)
        return max(64, min(in_time, self.kv_tokens // 2))

    @property
    def decode_steps(self) -> int:
        """Decode steps that fit one episode's time."""
        return int(min(48, max(8, 0.4 * EPISODE_S / self.decode_s)))


@dataclass(frozen=True)
class Episode:
    """Requests sent in this order, under one step budget."""

    kind: str
    step_budget: int
    prompt_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]
    arrival_s: tuple[float, ...] = ()
    """when each is sent; empty for all at once"""

    def requests(self, seed: int) -> Requests:
        """For `Engine.replay`. Another seed makes other prompts, which no prefix cache knows."""
        return Requests(
            arrival_s=np.array(self.arrival_s or np.zeros(len(self.prompt_tokens))),
            prompt_tokens=np.array(self.prompt_tokens, dtype=np.int64),
            output_tokens=np.array(self.output_tokens, dtype=np.int64),
            step_budget=self.step_budget,
            seed=seed,
        )


def limits_of(
    facts: EngineFacts, trace: Trace, *, prefill_token_s: float, decode_s: float
) -> Limits:
    """Limits of a started engine; requests no longer than the trace's longest (at least 512)."""
    resolved = facts.resolved
    budgets = (resolved.max_num_batched_tokens, resolved.max_num_scheduled_tokens)
    seqs = (resolved.max_num_seqs, resolved.max_num_active_seqs)
    block_size = resolved.block_size or 16
    kv_tokens = (facts.num_kv_blocks - 1) * block_size
    most_short = 2 * _MOST_CHUNKS + block_size  # tokens that a short request may come to
    longest = int((trace.prompt_tokens + trace.output_tokens).max())
    return Limits(
        step_budget=min(b for b in budgets if b is not None),
        num_seqs=max(1, min(*(s for s in seqs if s is not None), kv_tokens // most_short)),
        request_tokens=min(resolved.max_model_len or longest, max(512, longest)),
        kv_tokens=kv_tokens,
        block_size=block_size,
        prefill_token_s=prefill_token_s,
        decode_s=decode_s,
    )


def episodes(limits: Limits, seed: int) -> Iterator[tuple[Episode, ...]]:
    """Endless rounds of episodes. Every round covers all kinds in an order of its own, so that
    the machine's drift does not go with the shape; the shapes fill the space evenly (Halton)."""
    from scipy.stats import qmc  # heavy: only profiling needs it

    rng = np.random.default_rng(seed)
    halton = {kind: qmc.Halton(3, rng=rng) for kind in sorted(set(_ROUND))}
    while True:
        kinds = rng.permutation(_ROUND).tolist()
        yield tuple(_MAKERS[kind](limits, halton[kind].random(1)[0]) for kind in kinds)


def _log_between(low: float, high: float, u: float) -> int:
    """Whole number between the two ends, evenly spread in its logarithm."""
    number: int = round(low * (max(high, low) / low) ** u)
    return number


def _lengths(limits: Limits, num: int, outputs: int, share: float, u: float) -> tuple[int, ...]:
    """Prompt lengths of `num` requests, from half to one and a half of a common one, that
    together take `share` of the episode. Long ones more often: they are what traffic holds."""
    most = min(int(share * limits.prompt_tokens) // num, (limits.request_tokens - outputs) * 2 // 3)
    most = min(most, limits.kv_tokens // num - outputs - limits.block_size)
    middle = _log_between(8, max(8, most), u**0.5)
    return tuple(int(x) for x in np.rint(middle * np.linspace(0.5, 1.5, num + 2)[1:-1]))


def _staggered(num: int, steps: int) -> tuple[int, ...]:
    """Output lengths that end one after the other."""
    return tuple(int(x) for x in np.rint(np.linspace(max(2, steps // 3), steps, num)))


def _walk(limits: Limits, u: FloatArray) -> Episode:
    """A few prompts, each in many chunks; none decodes, for the prompt's end gives its only
    token."""
    prompts = _lengths(limits, 1 + int(3 * u[2]), 1, 1.0, u[0])
    budget = _log_between(max(16, max(prompts) / _MOST_CHUNKS), limits.step_budget, u[1])
    return Episode("walk", min(budget, limits.step_budget), prompts, (1,) * len(prompts))


def _pack(limits: Limits, u: FloatArray) -> Episode:
    """Several prompts in one step; none decodes."""
    num = _log_between(2, min(limits.num_seqs, 32), u[0])
    prompts = _lengths(limits, num, 1, 1.0, u[1])
    least = max(64, sum(prompts) / _MOST_CHUNKS)
    budget = _log_between(least, max(least, min(limits.step_budget, sum(prompts))), u[2])
    return Episode("pack", min(budget, limits.step_budget), prompts, (1,) * num)


def _crowd(limits: Limits, u: FloatArray) -> Episode:
    """Decodes only, once the prompts are done; the batch shrinks."""
    num = _log_between(1, min(limits.num_seqs, limits.step_budget), u[0])
    prompts = _lengths(limits, num, limits.decode_steps, 1.0, u[1])
    return Episode("crowd", limits.step_budget, prompts, _staggered(num, limits.decode_steps))


def _mix(limits: Limits, u: FloatArray) -> Episode:
    """Decodes that run while a long prompt comes in chunks."""
    num = _log_between(1, max(1, min(limits.num_seqs - 1, limits.step_budget // 2)), u[0])
    budget = min(_log_between(num + 16, limits.step_budget, u[1]), limits.step_budget)
    share = budget - num
    most = min(limits.prompt_tokens // 2, limits.request_tokens - 2, share * _MOST_CHUNKS // 2)
    long = _log_between(max(1, min(2 * share, most)), max(1, most), u[2])
    prompts = _lengths(limits, num, _MOST_CHUNKS, 0.5, u[2])
    steps = -(-sum(prompts) // share) + -(-long // share)
    outputs = max(1, min(steps + 3, limits.request_tokens - max(prompts)))
    return Episode("mix", budget, (*prompts, long), (*(outputs,) * num, 1))


def _drop(limits: Limits, u: FloatArray) -> Episode:
    """Prompts that drop in one by one while a few requests of some context decode: chunks that
    follow decodes, and decodes that follow a chunk, as in ordinary traffic."""
    num = _log_between(1, max(1, min(limits.num_seqs - 1, 24)), u[0])
    most = min(limits.prompt_tokens, limits.kv_tokens // 2) // num - limits.block_size
    context = _log_between(16, max(16, min(most, limits.request_tokens // 2)), u[2] ** 0.5)
    context = min(context, limits.request_tokens // 2)
    first_s = num * context * limits.prefill_token_s
    apart_s = EPISODE_S / (_NUM_DROPS + 1)
    longest = min(int(0.6 * apart_s / limits.prefill_token_s), limits.request_tokens - 2)
    middle = _log_between(8, max(8, longest * 2 // 3), u[1] ** 0.5)
    dropped = tuple(max(1, int(middle * x)) for x in np.linspace(0.5, 1.5, _NUM_DROPS))
    steps = max(2, min(int(EPISODE_S / limits.decode_s), limits.request_tokens - context))
    return Episode(
        "drop",
        limits.step_budget,
        (context,) * num + dropped,
        (steps,) * num + (1,) * _NUM_DROPS,
        (0.0,) * num + tuple(first_s + apart_s * (k + 1) for k in range(_NUM_DROPS)),
    )


_MAKERS = {"walk": _walk, "pack": _pack, "crowd": _crowd, "mix": _mix, "drop": _drop}
