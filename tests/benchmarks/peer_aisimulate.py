"""Replays a trace with aisimulate, in the environment that `test_beside_a_peer.py` makes for it.

Usage: peer_aisimulate.py WARM_UP.jsonl TRACE.jsonl TIMING SETTINGS, traces in Mooncake's format.
Prints one JSON object: CPU seconds of each run (reading the trace and the report included) and
what it predicted.
"""

import json
import sys
import time
from typing import Any

RUNS = 2


def main(warm_up: str, trace: str, timing: str, settings: str) -> None:
    from aisimulate import CorePredictionConfig, EngineReplayRunnerFactory
    from aisimulate.predict import run_prediction

    def run(path: str) -> Any:
        config = CorePredictionConfig.model_validate(
            {
                "traffic": {
                    "source": {"type": "trace", "paths": [path], "format": "mooncake"},
                    "load": {"type": "trace_timestamps"},
                },
                "engine": {
                    "mode": "aggregated",
                    "model": "meta-llama/Meta-Llama-3.1-8B",
                    "hardware": "h200_sxm",
                    "backend": "vllm",
                    "workers": {"aggregated": worker(timing, **json.loads(settings))},
                },
            }
        )
        return run_prediction(config, stack="engine", runner_factory=EngineReplayRunnerFactory())

    run(warm_up)
    spent = []
    for _ in range(RUNS):
        started = time.process_time()
        summary = run(trace).summary
        spent.append(time.process_time() - started)
    figures = ("num_requests", "mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms")
    print(json.dumps({"cpu_s": spent, **{name: summary[name] for name in figures}}))


def worker(timing: str, budget: int, seqs: int, block_size: int, blocks: int) -> dict[str, Any]:
    return {
        "scheduler": {"max_batched_tokens": budget, "max_sequences": seqs},
        "timing": {"type": timing},
        "kv_cache": {
            "block_size": block_size,
            "prefix_caching": False,
            "capacity": {"type": "fixed", "blocks": blocks},
        },
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
