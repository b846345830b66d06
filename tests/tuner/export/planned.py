"""A finished run of fleets, made by hand: an aggregated and a split one, on different GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.tuner.conftest import finished_by_hand
from tuner.candidate import Candidate, Evidence, Verdict
from tuner.fleet_plan import AGGREGATED, DECODE, PREFILL, FleetPlan, PoolSetup
from tuner.results import Results

SETTINGS: dict[str, Any] = {"max_model_len": 4096, "max_num_batched_tokens": 1024}
DEFAULT = FleetPlan((PoolSetup(AGGREGATED, 8, 1, "h200", {"max_model_len": 4096}),), "round-robin")
TOGETHER = FleetPlan(
    (PoolSetup(AGGREGATED, 4, 2, "h200", SETTINGS | {"scheduler_reserve_full_isl": False}),),
    "power-of-two",
)
SPLIT = FleetPlan(
    (
        PoolSetup(PREFILL, 2, 1, "h100", SETTINGS | {"max_num_batched_tokens": 8192}),
        PoolSetup(DECODE, 3, 2, "h200", SETTINGS | {"max_num_seqs": 64}),
    ),
    "least-requests",
    "round-robin",
)
MIXED = FleetPlan((PoolSetup(AGGREGATED, 2, 1, "h200", SETTINGS), *SPLIT.pools), "round-robin",
                  "round-robin")  # fmt: skip
PLANS = {"aggregated": TOGETHER, "pd": SPLIT}


def candidate_of(plan: FleetPlan, label: str = "candidate-1") -> Candidate:
    """`plan`, predicted only."""
    predicted = finished_by_hand().recommended.predicted
    resolved = {pool.role: {"block_size": 16, **pool.settings} for pool in plan.pools}
    return Candidate(label, plan.settings(), predicted, None, None, [], resolved)


def point(number: int, plan: FleetPlan, ttft_s: float | None, goodput_rps: float) -> dict[str, Any]:
    """A point of the front."""
    return {
        "number": number,
        "settings": plan.settings(),
        "ttft_p99_s": ttft_s,
        "itl_p99_s": 0.02,
        "goodput_rps": goodput_rps,
        "intervals": {},
        "chance": {},
        "feasible": True,
        "on_front": True,
    }


def run_of(plan: FleetPlan, **changes: Any) -> Results:
    """A run that recommends `plan`; its search, and the profile, were of two GPUs per replica."""
    run = finished_by_hand()
    default, best = candidate_of(DEFAULT, "default"), candidate_of(plan)
    engine = {"engine": "vllm", "version": "0.32.0", "device": "H200", "num_gpus": 2}
    made = replace(
        run,
        verdict=Verdict.PREDICTED,
        evidence=Evidence.PREDICTED,
        default=default,
        recommended=best,
        candidates=[default, best],
        front=[point(0, DEFAULT, 0.5, 4.0), point(1, plan, 0.3, 8.0)],
        engine=run.engine
        | {
            "model": "meta-llama/Llama-3.1-8B-Instruct",
            "args": run.engine["args"] | {"tensor_parallel_size": 2},
        },
        provenance=run.provenance | {"engine": engine},
        fleet={
            "max_gpus": 8,
            "fewest": False,
            "link": {"name": "ib-ndr", "latency_s": 1e-5, "bytes_per_s": 5e10, "shared": True,
                     "overlap_layers": 1},
            "searched_requests": 100,
            "requests": 273,
        },
    )  # fmt: skip
    return replace(made, **changes)
