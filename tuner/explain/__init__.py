"""Why a request's first token was late, or its tokens stalled: the steps that made it."""

from __future__ import annotations

import re

from profiler.errors import InputError
from tuner.explain.first_token import TtftStory, ttft_of, worst_ttft
from tuner.explain.gap import GapStory, gap_at, gap_of, worst_gap
from tuner.explain.steps import Chunk, Part, Rerun, Scene, StepView

__all__ = ["Chunk", "GapStory", "Part", "Rerun", "Scene", "StepView", "TtftStory", "explain"]

Story = GapStory | TtftStory


def explain(scene: Scene, what: str) -> list[Story]:
    """The stories of `what`: "worst-itl", "worst-ttft", "request:N" (N counts from 1), or "step:K"
    (the gap that ends with the run's step K, which counts from 0).

    The run is repeated with the detailed record of the few steps that matter.

    Raises
    ------
    InputError
        No such question, no such request, nothing to explain, or a configuration with draft tokens.
    """
    if scene.config.num_speculative_tokens:
        raise InputError(
            "an explanation takes one token per request and step, got "
            f"num_speculative_tokens={scene.config.num_speculative_tokens}; set it to 0"
        )
    if what == "worst-itl":
        return [worst_gap(scene)]
    if what == "worst-ttft":
        return [worst_ttft(scene)]
    if match := re.fullmatch(r"step:(\d+)", what):
        return [gap_at(scene, int(match[1]))]
    match = re.fullmatch(r"request:(\d+)", what)
    if match is None:
        raise InputError(
            f"cannot explain {what!r}; give worst-itl, worst-ttft, request:N or step:K"
        )
    number, count = int(match[1]), scene.trace.num_requests
    if not 1 <= number <= count:
        raise InputError(f"no request {number}; the traffic has requests 1 to {count}")
    if not scene.done.outcomes.first_token_s[number - 1] >= 0:
        raise InputError(
            f"request {number} got no token: it was rejected, being longer than max_model_len or "
            "than the KV pool, or the run stopped before; choose another"
        )
    gap = gap_of(scene, number - 1)
    return [ttft_of(scene, number - 1)] + ([] if gap is None else [gap])
