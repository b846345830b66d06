"""Predictions that must not move unnoticed: a committed table of configuration -> figures.

A configuration whose feasibility changes fails; smaller drift is printed. After an intended change:
`python -m tests.tuner.test_pinned_predictions`, and say in the commit why the figures moved.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from profiler.engine_config import EngineConfig
from profiler.latency.base import load_latency_model
from profiler.traffic.synthetic import like
from tests.tuner.pinned import check_pinned
from tuner.metrics import compute
from tuner.simulator import simulate
from tuner.slo import Slo

TABLE = Path(__file__).with_name("pinned_predictions.json")
FIGURES = ("ttft_p50_s", "ttft_p99_s", "itl_p50_s", "itl_p99_s", "goodput_rps")
SLO = Slo.build(("default",), {"ttft_p99_s": 1.0, "itl_p99_s": 0.04}, {})
BASE: dict[str, Any] = {
    "max_num_batched_tokens": 8192,
    "max_num_seqs": 256,
    "max_model_len": 16384,
    "block_size": 16,
    "enable_prefix_caching": False,
    "async_scheduling": True,
}
CHANGES: dict[str, dict[str, Any]] = {
    "default": {},
    "budget 2048": {"max_num_batched_tokens": 2048},
    "budget 512": {"max_num_batched_tokens": 512},
    "budget 2048, cap 512": {"max_num_batched_tokens": 2048, "long_prefill_token_threshold": 512},
    "adaptive cap": {
        "long_prefill_token_threshold": 256,
        "long_prefill_token_threshold_adaptive": True,
    },
    "few slots": {"max_num_seqs": 16},
    "synchronous": {"async_scheduling": False, "max_num_batched_tokens": 2048},
}
NUM_KV_BLOCKS = 4000


def predict(changes: dict[str, Any]) -> dict[str, Any]:
    """Figures of one configuration on two minutes of Azure-like traffic at 12 requests/s."""
    trace = like("azure-conv-2023", rate_rps=12.0, duration_s=120.0, seed=7)
    config = EngineConfig.from_settings(BASE | changes)
    model = load_latency_model("example-8b")
    result = simulate(
        trace, config, model, num_kv_blocks=NUM_KV_BLOCKS, itl_limit_s=SLO.itl_limit_s, seed=7
    )
    metrics = compute(result.outcomes, SLO)
    figures = {name: getattr(metrics, name) for name in FIGURES}
    return {"feasible": metrics.meets_slo, "steps": result.num_steps, **figures}


@pytest.mark.parametrize("name", CHANGES)
def test_prediction_stays(name: str) -> None:
    check_pinned(TABLE, name, predict(CHANGES[name]), FIGURES)


def test_the_table_holds_both_verdicts() -> None:
    verdicts = {row["feasible"] for row in json.loads(TABLE.read_text()).values()}
    assert verdicts == {True, False}


if __name__ == "__main__":
    table = {name: predict(changes) for name, changes in CHANGES.items()}
    TABLE.write_text(json.dumps(table, indent=1) + "\n")
