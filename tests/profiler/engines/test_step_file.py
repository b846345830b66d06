"""The step file and the table made of it."""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np

from profiler.engines.step_file import StepFile, step_samples
from profiler.steps import AFTER_CHUNKS, AFTER_IDLE

NAN = float("nan")
FIRST = [2, 10.0, 1e-4, 5e-3, NAN, 2, 7, 99, *(0, 30, 100, 1), *(1, 1, 40, 0)]
SECOND = [1, 11.0, 2e-4, 6e-3, 7e-3, 1, 0, 98, *(1, 1, 41, 0)]


def append(path: Path, numbers: list[float]) -> None:
    with path.open("ab") as file:
        file.write(array("d", numbers).tobytes())


def test_a_growing_file_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "steps.f64"
    steps = StepFile(path)
    assert step_samples(steps.take()).num_steps == 0  # not there yet
    append(path, FIRST)
    append(path, SECOND[:9])  # torn: still being written
    samples = step_samples(steps.take())
    assert samples.start_s.tolist() == [10.0]
    append(path, SECOND[9:])
    samples = step_samples(steps.take())
    assert samples.start_s.tolist() == [11.0]
    assert samples.interval_s.tolist() == [7e-3]
    assert samples.decode_context.tolist() == [41]
    assert steps.take().header.shape == (0, 8)


def test_columns(tmp_path: Path) -> None:
    path = tmp_path / "steps.f64"
    append(path, FIRST + SECOND)
    samples = step_samples(StepFile(path).take())
    assert samples.prefill_tokens.tolist() == [30, 0]
    assert samples.num_prefills.tolist() == [1, 0]
    assert samples.chunk_context.tolist() == [100, 0]
    assert samples.num_decodes.tolist() == [1, 1]
    assert samples.decode_context.tolist() == [40, 41]
    assert samples.attention_pairs.tolist() == [sum(100 + j for j in range(1, 31)), 0]
    assert samples.follows.tolist() == [AFTER_IDLE, AFTER_CHUNKS]
    assert samples.schedule_s.tolist() == [1e-4, 2e-4]
    assert samples.exec_s.tolist() == [5e-3, 6e-3]
    assert np.isnan(samples.interval_s[0])
    assert samples.num_running.tolist() == [2, 1]
    assert samples.num_waiting.tolist() == [7, 0]
    assert samples.free_blocks.tolist() == [99, 98]
    assert samples.speed.tolist() == [1.0, 1.0]
    assert not samples.is_sentinel.any()
    assert samples.configuration.tolist() == [0, 0]
    assert samples.prefill_tokens.dtype == np.int64
    assert samples.exec_s.dtype == np.float64
