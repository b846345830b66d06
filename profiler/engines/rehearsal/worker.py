"""`RehearsalWorker`: vLLM's worker without weights and without computing; see the package."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.outputs import AsyncModelRunnerOutput, ModelRunnerOutput
from vllm.v1.worker.worker_base import CompilationTimes, WorkerBase

from profiler.engines.record_file import RecordWriter
from profiler.engines.rehearsal.batch import Batches, ScheduledStep
from profiler.engines.rehearsal.late_file import late_file
from profiler.engines.rehearsal.moves import WorkerMoves
from profiler.engines.rehearsal.pace import Pace
from profiler.engines.rehearsal.spec import MODEL_KEY
from profiler.engines.vllm.recorder import STEPS_VARIABLE
from profiler.latency.base import StepTimeModel
from profiler.latency.step_time import step_interval

_TOKEN = 7
"""what every step "samples" for every request"""
_NUM_JITTER = 4096


class RehearsalWorker(WorkerBase):  # type: ignore[misc]  # vllm ships no types
    """What vLLM 0.32 asks of a worker, answered from the latency model and from config.json."""

    def init_device(self) -> None:
        """Load the latency model; there is no device."""
        model = StepTimeModel.load(Path(self.vllm_config.additional_config[MODEL_KEY]))
        jitter = np.random.default_rng(self.model_config.seed).choice(model.residuals, _NUM_JITTER)
        self.device = torch.device("cpu")
        self._params = model.params
        self._jitter: list[float] = jitter.tolist()
        self._num_steps = 0
        self._overlapped = bool(self.scheduler_config.async_scheduling)
        self._batches, self.pace = Batches(), Pace()
        self.late = RecordWriter(late_file(Path(os.environ[STEPS_VARIABLE])))
        self._step: _Step | None = None

    def load_model(self, *, load_dummy_weights: bool = False) -> None:
        """There are no weights."""

    def get_supported_kv_cache_layouts(self) -> list[str]:
        """Any will do, for there is no cache."""
        return ["LBHNC"]

    def set_kv_cache_layout(self, kv_cache_layout: str) -> None:
        """There is no cache."""

    def get_kv_cache_spec(self) -> dict[str, Any]:
        """Full attention in every layer, of the shape that config.json gives."""
        model, parallel = self.model_config, self.parallel_config
        spec = FullAttentionSpec(
            block_size=self.cache_config.block_size,
            num_kv_heads=model.get_num_kv_heads(parallel),
            head_size=model.get_head_size(),
            dtype=model.dtype,
        )
        layers = range(model.get_num_layers(parallel))
        return {f"model.layers.{i}.self_attn.attn": spec for i in layers}

    def determine_available_memory(self) -> int:
        """Bytes that hold the GPU's KV blocks."""
        page = sum(spec.page_size_bytes for spec in self.get_kv_cache_spec().values())
        return int(self.cache_config.num_gpu_blocks_override * page)

    def initialize_from_config(self, kv_cache_config: Any) -> None:
        """There is no cache; KV transfers take their time all the same."""
        self.moves = WorkerMoves(self.vllm_config, kv_cache_config)

    def get_kv_connector_handshake_metadata(self) -> None:
        """There is nothing to shake hands about."""

    def compile_or_warm_up_model(self) -> CompilationTimes:
        """There is nothing to compile."""
        return CompilationTimes(language_model=0.0, encoder=0.0)

    def get_supported_tasks(self) -> tuple[str, ...]:
        """Text only."""
        return ("generate",)

    def execute_model(self, scheduler_output: Any) -> ModelRunnerOutput | None:
        """Start a step; vLLM then asks `sample_tokens` for its tokens."""
        scheduled = self._batches.take(scheduler_output)
        self.moves.begin(scheduler_output)
        if scheduled is None:
            self.pace.idle()
            return ModelRunnerOutput.with_kv_conn_output_only(self.moves.end())
        interval_s = self._jitter[self._num_steps % _NUM_JITTER] * step_interval(
            self._params, scheduled.batch, scheduled.num_running, self._overlapped
        )
        self._num_steps += 1
        self._step = _Step(self, scheduled, interval_s)
        return None

    def sample_tokens(self, grammar_output: Any) -> AsyncModelRunnerOutput:
        """The tokens of the step that was started last, to be waited for."""
        assert self._step is not None
        return self._step


class _Step(AsyncModelRunnerOutput):  # type: ignore[misc]
    """One step in flight."""

    def __init__(
        self, worker: RehearsalWorker, scheduled: ScheduledStep, interval_s: float
    ) -> None:
        self._worker, self._scheduled = worker, scheduled
        self._interval_s = interval_s
        self._end_s = worker.pace.begin(interval_s)

    def get_output(self) -> ModelRunnerOutput:
        """Wait for the end of the step."""
        ids = self._scheduled.request_ids
        output = ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request_id: i for i, request_id in enumerate(ids)},
            sampled_token_ids=[[_TOKEN] if gives else [] for gives in self._scheduled.gives_token],
        )
        worker = self._worker
        late_s = worker.pace.finish(self._end_s, self._interval_s)
        worker.late.write(self._interval_s, late_s)
        output.kv_connector_output = worker.moves.end()
        return output
