"""Step samples with a known latency, for the tests of the latency model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from profiler.latency.step_time import BatchColumns
from profiler.steps import StepSamples

FloatArray = npt.NDArray[np.float64]


def random_columns(num: int, seed: int) -> tuple[BatchColumns, npt.NDArray[np.int64]]:
    """`num` batches in episodes of 20 like shapes, all three kinds; and the episode of each."""
    rng = np.random.default_rng(seed)
    episode = np.arange(num) // 20
    kind = rng.integers(0, 3, episode.max() + 1)[episode]
    chunk = np.exp(rng.uniform(np.log(8), np.log(2048), episode.max() + 1))[episode].astype(int)
    before = rng.integers(0, 4, num) * chunk
    decodes = np.exp(rng.uniform(0, np.log(64), episode.max() + 1))[episode].astype(int)
    depth = np.exp(rng.uniform(np.log(16), np.log(3000), episode.max() + 1))[episode]
    chunk = np.where(kind == 0, 0, chunk)
    before = np.where(kind == 0, 0, before)
    decodes = np.where(kind == 1, 0, decodes)
    context = (decodes * depth).astype(int) + decodes * rng.integers(0, 20, num)
    columns = BatchColumns(
        prefill_tokens=chunk,
        num_prefills=np.minimum(chunk, 1),
        attention_pairs=chunk * (before + (chunk + 1) / 2),
        chunk_context=before,
        num_decodes=decodes,
        decode_context=context,
        follows=rng.integers(0, 3, num),
    )
    return columns, episode


def make_samples(
    device_s: Callable[[BatchColumns], FloatArray],
    *,
    num: int = 2000,
    seed: int = 0,
    noise: float = 0.0,
    host: tuple[float, float] = (0.0, 0.0),
) -> StepSamples:
    """`num` steps that take `device_s` on the device, log-normal noise, and host time."""
    columns, episode = random_columns(num, seed)
    jitter = np.exp(np.random.default_rng(seed + 1).normal(0.0, noise, num))
    exec_s = device_s(columns) * jitter
    running = columns.num_decodes + columns.num_prefills
    interval_s = exec_s + host[0] + host[1] * running
    return StepSamples(
        **columns._asdict(),
        exec_s=exec_s,
        interval_s=interval_s,
        schedule_s=np.full(num, 1e-4),
        num_running=running,
        num_waiting=np.zeros(num, dtype=np.int64),
        free_blocks=np.full(num, 100),
        start_s=np.cumsum(interval_s),
        speed=np.ones(num),
        configuration=episode,
        is_sentinel=np.zeros(num, dtype=bool),
    )
