"""`Trace`: recorded or synthetic traffic as arrays; times and lengths, never text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Trace:
    """N requests in order of arrival. Built by readers and generators; never changed in place."""

    arrival_s: FloatArray
    """(N,) seconds from the start of the trace; sorted, the first is 0."""
    prompt_tokens: IntArray
    """(N,) tokens, at least 1."""
    output_tokens: IntArray
    """(N,) tokens, at least 1."""
    priority: IntArray | None = None
    """(N,) lower is served first; None when the traffic has none."""
    request_class: IntArray | None = None
    """(N,) index into `class_names`; None when there is one class only."""
    class_names: tuple[str, ...] = ("default",)
    prefix_hashes: IntArray | None = None
    """(H,) 64-bit hash of each started prefix block of every prompt, request after request."""
    prefix_offsets: IntArray | None = None
    """(N + 1,) request i owns prefix_hashes[prefix_offsets[i]:prefix_offsets[i + 1]]."""
    prefix_block_tokens: int | None = None
    """prompt tokens per prefix hash."""
    source: str = ""
    """where it came from, in words (file name and format, or generator and seed)."""
