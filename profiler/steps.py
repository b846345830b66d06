"""StepSamples: one row per engine step, with the derived columns the latency model is fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from profiler.errors import ResultsError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# What the engine ran right before a step (`StepSamples.follows`).
AFTER_DECODES = 0  # a step without prompt chunks
AFTER_CHUNKS = 1  # a step with prompt chunks
AFTER_IDLE = 2  # nothing


@dataclass(frozen=True)
class StepSamples:
    """S steps of one or more engine runs. Filled by `from_records`; read by `profiler.latency`."""

    prefill_tokens: IntArray
    """(S,) tokens of prompt chunks."""
    num_prefills: IntArray
    """(S,) prompts that got a chunk."""
    attention_pairs: FloatArray
    """(S,) attention work of the chunks: sum over chunks of n * (before + (n + 1) / 2), pairs."""
    chunk_context: IntArray
    """(S,) tokens already computed of the prompts that got a chunk, summed."""
    num_decodes: IntArray
    """(S,) requests that decoded one token."""
    decode_context: IntArray
    """(S,) KV tokens read by the decodes: sum of tokens computed before the step."""
    follows: IntArray
    """(S,) AFTER_DECODES, AFTER_CHUNKS or AFTER_IDLE: what the engine ran right before."""
    exec_s: FloatArray
    """(S,) from the end of scheduling to the output, seconds."""
    interval_s: FloatArray
    """(S,) from the previous output to this one, seconds; NaN after an idle engine."""
    schedule_s: FloatArray
    """(S,) inside the scheduler's schedule(), seconds."""
    num_running: IntArray
    """(S,) running requests after scheduling."""
    num_waiting: IntArray
    """(S,) waiting requests after scheduling."""
    free_blocks: IntArray
    """(S,) free KV blocks after scheduling."""
    start_s: FloatArray
    """(S,) start of the step on the engine's monotonic clock, seconds."""
    speed: FloatArray
    """(S,) machine speed at that moment relative to the profile's reference: sentinel reference
    time / sentinel time then; multiply a duration by it to normalise. 1 where unknown."""
    configuration: IntArray
    """(S,) which engine configuration the step ran under (0 ..)."""
    is_sentinel: npt.NDArray[np.bool_]
    """(S,) a step of the fixed sentinel batch."""

    @property
    def num_steps(self) -> int:
        return int(self.exec_s.size)

    def select(self, mask: npt.NDArray[np.bool_] | IntArray) -> StepSamples:
        """The rows of `mask`, as a new table."""
        return StepSamples(**{f.name: getattr(self, f.name)[mask] for f in fields(self)})

    def save(self, path: Path) -> None:
        pq.write_table(pa.table({f.name: getattr(self, f.name) for f in fields(self)}), path)

    @classmethod
    def load(cls, path: Path) -> StepSamples:
        """Read what `save` wrote. Raises `ResultsError` when the file is missing or damaged."""
        try:
            with pq.ParquetFile(path) as file:  # `read_table` loads all of pyarrow.dataset
                table = file.read()
            return cls(**{f.name: table[f.name].to_numpy() for f in fields(cls)})
        except (OSError, KeyError, pa.ArrowException) as error:
            raise ResultsError(f"step samples cannot be read from {path}: {error}") from error


def concatenate(parts: Sequence[StepSamples]) -> StepSamples:
    """One table of all parts, in order. `parts` must not be empty."""
    return StepSamples(
        **{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(StepSamples)}
    )
