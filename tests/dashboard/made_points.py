"""Points of a front with chosen figures, as `Results.front` has them."""

from __future__ import annotations

from typing import Any


def point(
    number: int, ttft_s: float | None, itl_s: float | None, kind: str = "feasible", **more: Any
) -> dict[str, Any]:
    """One trial; `more` are its settings, goodput (`goodput`) and chance (`chance`)."""
    goodput, chance = more.pop("goodput", 1.0), more.pop("chance", 1.0)
    return {
        "number": number,
        "settings": more,
        "ttft_p99_s": ttft_s,
        "itl_p99_s": itl_s,
        "goodput_rps": goodput,
        "intervals": {},
        "chance": {} if chance is None else {"all": chance},
        "feasible": kind != "infeasible",
        "on_front": kind == "on the front",
    }


FRONT = [
    point(0, 0.3, 0.2, "infeasible", budget=2048, chance=0.0),
    point(1, 0.4, 0.02, "on the front", budget=256, goodput=2.0),
    point(2, 0.2, 0.05, "on the front", budget=512, chance=0.25),
    point(3, 0.5, 0.06, "feasible", budget=300, goodput=1.5),
    point(4, None, 9.0, "infeasible", budget=128, chance=0.0),
]
"""two on the front, one that meets, two that miss, of which one never answers"""


def plan(replicas: int, **settings: Any) -> dict[str, Any]:
    """Settings of an aggregated fleet."""
    pool = {"role": "aggregated", "replicas": replicas, "tp": 1, "system": "", "settings": settings}
    return {
        "mode": "aggregated",
        "num_gpus": replicas,
        "router": "round-robin",
        "decode_router": None,
        "pools": [pool],
    }


def split(prefill: int, decode: int, **settings: Any) -> dict[str, Any]:
    """Settings of a disaggregated fleet."""
    pools = [
        {"role": role, "replicas": count, "tp": 1, "system": "", "settings": settings}
        for role, count in (("prefill", prefill), ("decode", decode))
    ]
    return {
        "mode": "disaggregated",
        "num_gpus": prefill + decode,
        "router": "round-robin",
        "decode_router": "round-robin",
        "pools": pools,
    }
