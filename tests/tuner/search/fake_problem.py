"""A problem with a known answer: big budgets stall decodes, small ones delay prompts.

In a module of its own so that worker processes can import it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from profiler.engine_config import EngineConfig
from profiler.errors import KnobError, SimulationError
from profiler.latency.base import load_latency_model
from profiler.traffic.trace import Trace
from tuner.metrics import Metrics
from tuner.search.objective import Problem
from tuner.search.settings import resolve
from tuner.slo import Limits, Slo
from tuner.space_section import Axis

RESOLVED = EngineConfig(max_num_batched_tokens=2048, max_num_seqs=128, max_model_len=4096)


def metrics(ttft_s: float, itl_s: float, goodput_rps: float, limit_s: float = 1.0) -> Metrics:
    """Metrics that differ in what the search looks at."""
    nothing = dict.fromkeys(Metrics.__dataclass_fields__, 0)
    for name in ("violations", "classes", "num_windows", "intervals", "chance"):
        del nothing[name]
    base = Metrics(**nothing)
    return replace(
        base,
        num_requests=1,
        num_finished=1,
        ttft_p99_s=ttft_s,
        itl_p99_s=itl_s,
        goodput_rps=goodput_rps,
        violations={
            "default.ttft_p99_s": ttft_s / limit_s - 1,
            "default.itl_p99_s": itl_s / 0.1 - 1,
        },
    )


class FakeProblem(Problem):
    """Closed form instead of a simulation; some settings are refused."""

    def evaluate(self, config: EngineConfig) -> Metrics:
        full = resolve(config, self.resolved)
        full.check()
        budget, seqs = full.max_num_batched_tokens or 1, full.max_num_seqs or 1
        if seqs % 7 == 0:
            raise SimulationError(f"seven is not held, got {seqs}")
        if seqs % 11 == 0:
            raise KnobError(f"eleven is refused, got {seqs}")
        ttft = 200 / budget + 5 / seqs
        itl = 1e-4 * budget
        return metrics(ttft, itl, 4 / (1 + math.exp(5 * (ttft - 1))))


def fake_problem() -> FakeProblem:
    trace = Trace(np.zeros(1), np.ones(1, dtype=np.int64), np.ones(1, dtype=np.int64))
    return FakeProblem(
        trace=trace,
        model=load_latency_model("example-8b"),
        slo=Slo(("default",), (Limits(ttft_p99_s=1.0, itl_p99_s=0.1),)),
        fixed=EngineConfig(max_model_len=4096),
        resolved=RESOLVED,
        num_kv_blocks=1000,
        space={
            "max_num_batched_tokens": Axis(low=32, high=4096, log=True),
            "max_num_seqs": Axis(low=1, high=256),
        },
    )
