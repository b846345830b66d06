"""How often intervals of a prediction cover the truth, with the simulator as the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from profiler.engine_config import EngineConfig
from profiler.latency.base import load_latency_model
from profiler.traffic.published import load_figures
from profiler.traffic.synthetic import spec_like, synthesize
from profiler.traffic.trace import FloatArray, Trace
from tuner.intervals import ALL
from tuner.metrics import compute, pool
from tuner.search.objective import Problem
from tuner.slo import Slo

FIGURES = ("ttft_p50_s", "ttft_p99_s", "itl_p50_s", "itl_p99_s", "tpot_p99_s", "goodput_rps")
SLO = Slo.build(("default",), {"ttft_p99_s": 0.5, "itl_p99_s": 0.04}, {})
CONFIG = EngineConfig(
    max_num_batched_tokens=2048,
    max_num_seqs=256,
    max_model_len=16384,
    block_size=16,
    enable_prefix_caching=False,
    async_scheduling=True,
)


def traffic(duration_s: float, rate_rps: float, *, steady: bool) -> Callable[[int], Trace]:
    """Seed -> Azure-like chat, bursty arrivals; the rate over time as recorded, or constant."""
    spec = spec_like(load_figures("azure-conv-2023"), duration_s, rate_rps, 0)
    spec = replace(spec, shape=None) if steady else spec
    return lambda seed: synthesize(replace(spec, seed=seed))


def problem(trace: Trace, windows: int = 8) -> Problem:
    """`CONFIG` on `trace`."""
    model = load_latency_model("example-8b")
    return Problem(trace, model, SLO, EngineConfig(), CONFIG, 4000, {}, windows)


@dataclass(frozen=True)
class Coverage:
    """What became of the predictions of many independent traces."""

    covered: dict[str, float]
    """share of the traces whose interval holds the truth"""
    width: dict[str, float]
    """median width over the truth"""
    met: float
    """share of the traces that meet every SLO"""
    chance: float
    """mean predicted chance of that"""

    def line(self) -> str:
        cells = [f"{k} {self.covered[k]:.2f} (width {self.width[k]:.0%})" for k in self.covered]
        return f"{', '.join(cells)}; SLOs met {self.met:.2f}, chance {self.chance:.2f}"


def measure(draw: Callable[[int], Trace], num_traces: int, num_truth: int) -> Coverage:
    """Predict `num_traces` traces; the truth is what `num_truth` others show together."""
    others = [
        problem(draw(10_000 + i), 1).simulate(EngineConfig(), seed=i) for i in range(num_truth)
    ]
    truth = compute(pool([o.outcomes for o in others]), SLO)
    met = np.mean([compute(o.outcomes, SLO).meets_slo for o in others])
    found = [problem(draw(i)).evaluate(EngineConfig()) for i in range(num_traces)]

    ends = {k: np.array([m.intervals[k] for m in found]).T for k in FIGURES}
    return Coverage(
        covered={k: _share(low, getattr(truth, k), high) for k, (low, high) in ends.items()},
        width={
            k: float(np.median(high - low)) / getattr(truth, k) for k, (low, high) in ends.items()
        },
        met=float(met),
        chance=float(np.mean([m.chance[ALL] for m in found])),
    )


def _share(low: FloatArray, truth: float, high: FloatArray) -> float:
    return float(((low <= truth) & (truth <= high)).mean())
