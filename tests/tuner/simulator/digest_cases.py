"""Print a digest of the outcomes of some random cases, of one engine and of fleets; run by
`test_compilation_modes.py`."""

from __future__ import annotations

import hashlib
import sys

import numpy as np
from fleet_cases import KINDS, draw_fleet

from profiler.latency.base import load_latency_model
from tuner.simulator import simulate, simulate_fleet
from tuner.simulator.difftest.cases import random_case
from tuner.simulator.router import RULES

RULES_OF_ALL = list(RULES)[:4]
"""rules that fit every fleet, for first and decode replicas"""


def digest(count: int, num_fleets: int) -> str:
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
    for seed in range(num_fleets):
        drawn = draw_fleet(seed, KINDS[seed % 3], RULES_OF_ALL[seed % 4], RULES_OF_ALL[-seed % 4])
        fleet = simulate_fleet(drawn.trace, drawn.fleet, fails=drawn.fails)
        out = fleet.outcomes
        for array in (fleet.replica, fleet.decode_replica, fleet.load_end_s, out.finish_s):
            total.update(np.ascontiguousarray(array).tobytes())
        total.update(out.gap_s.tobytes())
    return total.hexdigest()


if __name__ == "__main__":
    print(digest(int(sys.argv[1]), int(sys.argv[2])))
