"""Print a digest of the outcomes of some random cases; run by `test_compilation_modes.py`."""

from __future__ import annotations

import hashlib
import sys

import numpy as np

from profiler.latency.base import load_latency_model
from tuner.simulator import simulate
from tuner.simulator.difftest.cases import random_case


def digest(count: int) -> str:
    model = load_latency_model("example-8b")
    total = hashlib.sha256()
    for seed in range(count):
        case = random_case(seed)
        for record in (False, True):
            result = simulate(
                case.trace,
                case.config,
                model,
                num_kv_blocks=case.num_kv_blocks,
                itl_limit_s=np.array([0.02]),
                acceptance=case.acceptance,
                record=record,
            )
            out = result.outcomes
            for array in (out.first_token_s, out.finish_s, out.gap_s, out.gap_weight):
                total.update(np.ascontiguousarray(array).tobytes())
            total.update(out.num_slow_gaps.tobytes())
    return total.hexdigest()


if __name__ == "__main__":
    print(digest(int(sys.argv[1])))
