"""Every kernel of the simulator by name, to be compiled ahead of use."""

from __future__ import annotations

import time

from profiler.engine_config import EngineConfig
from profiler.latency.base import load_latency_model
from profiler.traffic.images import Images
from profiler.traffic.trace import Trace
from tuner.simulator.compilation import DRAFTS, FLEET, prepare
from tuner.simulator.run import simulate

IMAGES = "images"
NAMES = (FLEET, DRAFTS, IMAGES)
"""every kernel; that of one engine comes with fleets"""


def compile_kernel(name: str) -> float:
    """Compile a kernel, or load it; returns the seconds that took."""
    started = time.perf_counter()
    if name == IMAGES:
        simulate_image()
    else:
        prepare(speculative=name == DRAFTS, fleet=name == FLEET)
    return time.perf_counter() - started


def simulate_image() -> None:
    """Simulate one request with an image: the kernels for images are apart from those for text."""
    config = EngineConfig(max_num_batched_tokens=8, max_num_seqs=1, max_model_len=16, block_size=4)
    trace = Trace.build([0.0], [4], [1], images=Images.of_rows([[(0, 2, 1)]]))
    simulate(trace, config, load_latency_model("example-8b"), num_kv_blocks=16)
