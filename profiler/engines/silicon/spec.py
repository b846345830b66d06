"""What to predict: a model on a GPU under an engine, and which terms to add to kernel time."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

WEIGHT_DTYPES = ("auto", "bfloat16", "fp8", "fp8_block", "fp8_static", "nvfp4", "w4a16_mxfp4")
KV_DTYPES = ("auto", "bfloat16", "fp8")
ENGINES_WITH_DATA = ("vllm",)
"""engines whose scheduler is simulated; the published data has SGLang and TensorRT-LLM, too"""


@dataclass(frozen=True)
class Terms:
    """What published kernel times leave out; each can be switched off (`NO_TERMS`).

    Unequal chunks are no term: the tables take the query-key pairs summed over the chunks, where
    the source averages the requests of a step.
    """

    step_s: float = 0.5e-3
    """time of every step that no asynchrony hides: input preparation, sampling, output copy.
    A prototype on published end-to-end rows (H200) was best with about this much."""
    host_s: float = 0.5e-3
    """host time of every step: scheduling and output. Asynchronous scheduling hides it up to the
    device time (`step_time.step_interval`)."""
    host_per_running_s: float = 15e-6
    """host time per running request: vLLM 0.32's scheduler, timed without a model, takes 14 to
    16 us (50 us were seen on a slow shared host)"""
    frontend_s: float = 15e-3
    """client to scheduler and back: HTTP, tokenization, two process hops. A prototype on published
    end-to-end rows lacked 15 to 25 ms of TTFT at short prompts, whatever the model."""
    graph_padding: bool = True
    """a step of at most the largest captured size runs as the next captured size:
    `vllm/config/vllm.py` `_set_cudagraph_sizes`, `vllm/v1/cudagraph_dispatcher.py`"""
    chunk_factor: float = 1.0
    """on chunk work above the reading of the weights, attention of chunks included: kernels were
    measured alone and at full clock, long prompts run at the clock that the power limit allows"""
    decode_factor: float = 1.0
    """on the rest of the GPU time: decodes and the reading of the weights"""
    launch_per_layer_s: float = 0.0
    """no step with a chunk is faster than this per layer: outside captured graphs the host launches
    every kernel, which bounds small chunks on fast or many GPUs. NVIDIA's planner adds 0.8 ms per
    layer to every first token (`vllm_backend.py` `_prefill_dispatch_overhead_ms`)."""


NO_TERMS = Terms(
    step_s=0.0, host_s=0.0, host_per_running_s=0.0, frontend_s=0.0, graph_padding=False
)
"""kernel time alone"""


@dataclass(frozen=True)
class SiliconSpec:
    """Filled from the command line or from a study's `profile.silicon`."""

    model: str
    """name of a bundled model, a folder with a config.json, or such a file"""
    system: str
    """name of a GPU system of the published data, for example h200_sxm"""
    engine: str = "vllm"
    tp: int = 1
    """tensor-parallel GPUs"""
    weight_dtype: str = "auto"
    """one of WEIGHT_DTYPES; "auto" is what the checkpoint's config says"""
    expert_dtype: str = ""
    """one of WEIGHT_DTYPES for the experts alone; "" is as `weight_dtype`"""
    kv_dtype: str = "auto"
    """one of KV_DTYPES"""
    expert_parallel: bool = False
    """experts spread over the GPUs instead of cut (mixture-of-experts models)"""
    memory_fraction: float = 0.92
    """`gpu_memory_utilization`; the default is vLLM 0.32's"""
    terms: Terms = field(default_factory=Terms)

    def engine_args(self) -> dict[str, Any]:
        """What the engine must be started with to be what is predicted."""
        wanted = {
            "tensor_parallel_size": (self.tp, self.tp > 1),
            "enable_expert_parallel": (True, self.expert_parallel),
            "quantization": ("fp8", self.weight_dtype == "fp8"),
            "kv_cache_dtype": ("fp8", self.kv_dtype == "fp8"),
        }
        return {name: value for name, (value, given) in wanted.items() if given}

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
