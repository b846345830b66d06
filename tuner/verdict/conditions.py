"""How traffic and link are varied, and the traffic that results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from profiler.errors import TraceError
from profiler.traffic.ragged import cut_segments
from profiler.traffic.trace import Trace

PROMPT_LENGTH = "prompt_length"
LINK_BANDWIDTH = "link_bandwidth"
LOAD = "load"

FACTORS = {
    PROMPT_LENGTH: (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    LINK_BANDWIDTH: (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0),
    LOAD: (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0),
}
"""axis -> factors of the study's own value that are looked at"""
_NUM_STARTS = 33


@dataclass(frozen=True)
class Conditions:
    """Factors of what the study has; 1 is its own."""

    prompt_length: float = 1.0
    """of every prompt's length"""
    link_bandwidth: float = 1.0
    load: float = 1.0
    """of the arrival rate"""
    window: int = 0
    """arrival window of the whole traffic (`tuner.windows`); 0 is the traffic itself"""
    piece: int = 0
    """which of a bench's pieces of traffic; 0 is the whole"""

    def at(self, axis: str, factor: float) -> Conditions:
        """The same with another factor on `axis`."""
        changes: dict[str, Any] = {axis: factor}
        return replace(self, **changes)


OWN = Conditions()


def require_rate(trace: Trace) -> None:
    """Raise `TraceError` for traffic without a rate, whose load cannot be varied."""
    if not math.isfinite(trace.rate_rps):
        raise TraceError(
            "a verdict needs traffic with a rate, and all requests of this one arrive at once; "
            "use a trace with at least two time stamps"
        )


def scale_prompts(trace: Trace, factor: float, max_model_len: int | None) -> Trace:
    """Every prompt `factor` times as long, at least 1 token.

    A prompt that grows is cut where it and its output would exceed `max_model_len`. Prefix blocks
    grow and shrink with the prompts, so that the same share of them is common.

    Raises
    ------
    TraceError
        The traffic has images, which have places in the prompts.
    """
    if factor == 1.0:
        return trace
    if trace.images is not None:
        raise TraceError("prompts with images cannot be scaled; take the images out of the trace")
    prompt = np.maximum(1, np.rint(trace.prompt_tokens * factor)).astype(np.int64)
    if max_model_len is not None and factor > 1.0:
        room = np.maximum(max_model_len - trace.output_tokens, trace.prompt_tokens)
        prompt = np.minimum(prompt, room)
    hashes, offsets, block = trace.prefix_hashes, trace.prefix_offsets, trace.prefix_block_tokens
    if hashes is None or offsets is None or block is None:
        return replace(trace, prompt_tokens=prompt)
    block = max(1, round(block * factor))
    hashes, offsets = cut_segments(hashes, offsets, -(-prompt // block))
    return replace(
        trace,
        prompt_tokens=prompt,
        prefix_hashes=hashes,
        prefix_offsets=offsets,
        prefix_block_tokens=block,
    )


def typical_piece(trace: Trace, num_requests: int) -> Trace:
    """At most `num_requests` consecutive requests, at the mean rate of the whole.

    Of 33 evenly spread pieces the one whose rate and mean lengths are nearest to the whole
    trace's (sum of squared differences of their logarithms); then its times are stretched to the
    whole trace's rate.
    """
    n = trace.num_requests
    if n <= num_requests:
        return trace
    starts = np.unique(np.linspace(0, n - num_requests, _NUM_STARTS).astype(np.int64))
    pieces = [trace.take(np.arange(start, start + num_requests)) for start in starts]
    usable = [piece for piece in pieces if math.isfinite(piece.rate_rps)]
    if not usable:
        return pieces[0]
    nearest = usable[int(np.argmin(_distances(usable, trace)))]
    return nearest.scale_rate(trace.rate_rps) if math.isfinite(trace.rate_rps) else nearest


def _distances(pieces: Sequence[Trace], whole: Trace) -> list[float]:
    wanted = _figures(whole)
    return [sum((a - b) ** 2 for a, b in zip(_figures(p), wanted, strict=True)) for p in pieces]


def _figures(trace: Trace) -> tuple[float, float, float]:
    means = trace.rate_rps, trace.prompt_tokens.mean(), trace.output_tokens.mean()
    return math.log(means[0]), math.log(means[1]), math.log(means[2])
