"""The compiled step-latency model: batch shape -> seconds.

One function, called by `StepTimeModel.predict` and by the simulator, so that the fitted and the
simulated latency model cannot drift apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from profiler.compiled import compiled

FloatArray = npt.NDArray[np.float64]


class BatchShape(NamedTuple):
    """What one step processes; the scalars that its time depends on."""

    prefill_tokens: int
    """tokens of prompt chunks"""
    num_prefills: int
    """prompts that get a chunk"""
    attention_pairs: float
    """sum over chunks of n * (before + (n + 1) / 2): query-key pairs of the chunks"""
    chunk_context: int
    """tokens already computed of those prompts, summed"""
    num_decodes: int
    """requests that decode one token"""
    decode_context: int
    """sum over decodes of the tokens computed before the step"""
