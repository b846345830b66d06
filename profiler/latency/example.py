"""How the shipped latency model `example-8b` is made: `python -m profiler.latency.example`.

Illustrative. Five published step times of an 8B model (bfloat16, one H200, vLLM; GPU kernel time,
from the performance tables of aiconfigurator-core 0.12.0 for Llama-3.1-8B) fix five terms:
a constant (reading the weights), a slope above a knee in tokens (arithmetic of the linear layers),
a slope per query-key pair (attention of chunks), and a slope per token of decode context (reading
the KV cache). Host time is what a real vLLM showed above the kernel time on a CPU host: 1.3 ms a
step and 0.05 ms per running request. Front-end delays and jitter are not known, and left at none.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar, nnls

from profiler.latency.base import EXAMPLES, FloatArray, StepTimeModel
from profiler.latency.params import plain_params
from profiler.latency.region import SampledRegion
from profiler.latency.step_time import BatchColumns
from profiler.steps import AFTER_IDLE

NAME = "example-8b"
CHECK_S = np.array([4.91, 9.38, 43.4, 61.0, 17.4]) / 1e3
"""(5,) device seconds of the batches of `check_batches`"""
HOST_S = 1.3e-3
HOST_PER_RUNNING_S = 0.05e-3


def check_batches() -> BatchColumns:
    """One decode; 64 decodes at 2,000; 2,048 tokens at 0; 2,048 at 8,192 with the 64 decodes;
    512 at 0 with the 64 decodes."""
    chunk = np.array([0, 0, 2048, 2048, 512])
    before = np.array([0, 0, 0, 8192, 0])
    return BatchColumns(
        prefill_tokens=chunk,
        num_prefills=np.minimum(chunk, 1),
        attention_pairs=chunk * (before + (chunk + 1) / 2),
        chunk_context=before,
        num_decodes=np.array([1, 64, 0, 64, 64]),
        decode_context=np.array([1, 128_000, 0, 128_000, 128_000]),
        follows=np.full(5, AFTER_IDLE),
    )


def _solve(knee: float) -> tuple[FloatArray, float]:
    """Coefficients and relative error of the best fit with this knee."""
    b = check_batches()
    above = np.maximum(0.0, b.prefill_tokens + b.num_decodes - knee)
    columns = (np.ones(5), b.attention_pairs, b.decode_context, above)
    design = np.stack(columns, axis=1) / CHECK_S[:, None]
    scale = design.max(axis=0)
    weights, error = nnls(design / scale, np.ones(5))
    return weights / scale, float(error)


def make_example() -> StepTimeModel:
    """Derive the model from the check values."""
    knee = float(minimize_scalar(lambda k: _solve(k)[1], bounds=(65, 570), method="bounded").x)
    constant, pair, context, above = (float(c) for c in _solve(round(knee))[0])
    params = plain_params(
        constant_s=constant,
        per_attention_pair_s=pair,
        per_decode_context_s=context,
        above_knee_s=above,
        upper_knee=round(knee),
        host_s=HOST_S,
        host_per_running_s=HOST_PER_RUNNING_S,
    )
    return StepTimeModel(
        params=params,
        frontend_in_s=0.0,
        frontend_out_s=0.0,
        residuals=np.ones(1),
        region=SampledRegion.of(check_batches()),
        facts={
            "illustrative": True,
            "model": "8B decoder, bfloat16",
            "device": "one H200",
            "source": " ".join((__doc__ or "").split()),
        },
    )


if __name__ == "__main__":
    make_example().save(EXAMPLES / f"{NAME}.json")
