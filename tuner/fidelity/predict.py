"""One row predicted: the benchmark's closed loop through the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from profiler.engines.silicon.spec import SiliconSpec, Terms
from profiler.latency.base import StepTimeModel
from profiler.traffic.trace import Trace
from tuner.fidelity.engines import Engine
from tuner.fidelity.rows import Row
from tuner.fidelity.servers import config_of, server_of, spec_of
from tuner.simulator import simulate

_PER_CLIENT = 10
"""requests per concurrent client"""
_SHORTEST = 0.8
"""shortest prompt and output, as a part of the longest"""
MEAN_LENGTH = (1.0 + _SHORTEST) / 2
"""of a prompt or output, as a part of the longest"""


@dataclass(frozen=True)
class Prediction:
    """Mean figures of one row, seconds."""

    ttft_s: float
    tpot_s: float


def traffic_of(row: Row, seed: int = 0) -> Trace:
    """The benchmark's requests.

    InferenceX, `utils/bench_serving/benchmark_serving.py` `sample_random_requests` with
    `--random-range-ratio 0.8`, `--num-prompts` of 10 times the concurrency and `--ignore-eos`.
    """
    rng = np.random.default_rng(seed)
    num = _PER_CLIENT * row.concurrency
    prompts, outputs = (
        rng.integers(int(_SHORTEST * longest), longest + 1, num) for longest in (row.isl, row.osl)
    )
    return Trace(np.zeros(num), prompts, outputs)


class Predictor:
    """Predicts rows with the terms that `terms_of` gives; keeps latency models for the next row."""

    def __init__(
        self, engines: dict[SiliconSpec, Engine], terms_of: Callable[[Row], Terms]
    ) -> None:
        self._engines, self._terms_of = engines, terms_of
        self._models: dict[tuple[SiliconSpec, Terms], StepTimeModel] = {}

    def predict(self, row: Row) -> Prediction:
        """Mean TTFT and TPOT of the closed loop.

        Raises `SimulationError` when a request does not fit the KV pool.
        """
        spec, terms = spec_of(row), self._terms_of(row)
        engine = self._engines[spec]
        if (spec, terms) not in self._models:
            self._models[spec, terms] = engine.model(terms)
        simulation = simulate(
            traffic_of(row),
            config_of(row).over(engine.resolved),
            self._models[spec, terms],
            num_kv_blocks=engine.num_kv_blocks(server_of(row).budget),
            seed=None,
            concurrency=row.concurrency,
        )
        out = simulation.outcomes
        decoding = (out.finish_s - out.first_token_s) / np.maximum(out.output_tokens - 1, 1)
        waiting = out.first_token_s - out.arrival_s
        return Prediction(float(np.mean(waiting)), float(np.mean(decoding)))
