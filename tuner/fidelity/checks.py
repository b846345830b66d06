"""Rows that contradict the published kernel times or the settings of their server, by rules that
look at no prediction error."""

from __future__ import annotations

import numpy as np

from profiler.engines.silicon.shapes import Shapes, as_samples
from profiler.engines.silicon.spec import SiliconSpec
from tuner.fidelity.engines import Engine
from tuner.fidelity.predict import MEAN_LENGTH
from tuner.fidelity.rows import Row
from tuner.fidelity.servers import server_of, spec_of

TOO_FAST = "faster than its own kernel times: cached prompts, or more GPUs than stated"
HELD_BACK = "the server held requests back, by a limit that is not stated"
TIGHT = "KV room is under a tenth of the GPU's memory, so its size is not known well enough"

_PROMPTS, _ALL = 1.1, 1.75
"""parts of the time for which a GPU may be busy with prompts, and with prompts and decodes; what is
above 1 is how far the kernel times may be off (whole models are measured up to 1.65 times faster
than the kernels of another engine version)"""
_SERIES = 0.5
"""part of a model's rows on a GPU that makes all of them doubtful"""
_WAITING = 0.5
"""part of a request's time that waiting for its first token may take while prompts keep the GPU
busy for no more than this part of it, and KV has room for all"""
_TIGHT = 0.1


def contradictions(rows: tuple[Row, ...], engines: dict[SiliconSpec, Engine]) -> dict[str, str]:
    """Row id -> why it is left out; a series (model, GPU and format) of which at least `_SERIES`
    is too fast is left out whole."""
    found = {row.id: contradiction(row, engines[spec_of(row)]) for row in rows}
    series: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        series.setdefault((row.model, row.system, row.gemm_dtype), []).append(row.id)
    for ids in series.values():
        if sum(found[name] == TOO_FAST for name in ids) >= _SERIES * len(ids):
            found |= dict.fromkeys(ids, TOO_FAST)
    return {name: reason for name, reason in found.items() if reason}


def contradiction(row: Row, engine: Engine) -> str:
    """Why `row` is left out; "" when it is not.

    By Little's law a request takes L = TTFT + output tokens x TPOT, so `concurrency` prompts are
    computed every L seconds, and `concurrency` x (TTFT / L) requests wait for their first token.
    """
    whole_s = row.ttft_s + MEAN_LENGTH * row.osl * row.tpot_s
    waiting = row.ttft_s / whole_s
    busy = row.concurrency * prompt_s(row, engine) / whole_s
    decoding = max(1, round(row.concurrency * (1.0 - waiting)))
    decode = MEAN_LENGTH * row.osl * decode_step_s(row, engine, decoding) / whole_s
    if busy > _PROMPTS or busy + decode > _ALL:
        return TOO_FAST
    budget = server_of(row).budget
    room = engine.num_kv_blocks(budget) * (engine.resolved.block_size or 1)
    needed = row.concurrency * (row.isl + row.osl)
    if waiting > _WAITING and busy < _WAITING and needed < room:
        return HELD_BACK
    if engine.kv_share(budget) < _TIGHT and needed > room / 2:
        return TIGHT
    return ""


def prompt_s(row: Row, engine: Engine) -> float:
    """Least GPU seconds of one mean prompt: its part of a step full of them, at kernel time."""
    length = int(MEAN_LENGTH * row.isl)
    num = max(1, server_of(row).budget // length)
    return _kernel_s(engine, (num, length, 0, 0)) / num


def decode_step_s(row: Row, engine: Engine, decodes: int) -> float:
    """Kernel time of a step of `decodes` decodes halfway through their outputs."""
    context = int(MEAN_LENGTH * (row.isl + row.osl / 2))
    return _kernel_s(engine, (0, 0, decodes, context))


def _kernel_s(engine: Engine, shape: tuple[int, int, int, int]) -> float:
    """Kernel time of (prompts, tokens of each, decodes, context of each)."""
    prompts, chunk, decodes, context = (np.array([number]) for number in shape)
    step = Shapes(prompts, chunk, np.zeros_like(chunk), decodes, context)
    return float(engine.kernel_model.device_s(as_samples(step, np.ones(1)))[0])
