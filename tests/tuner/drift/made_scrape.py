"""Prometheus text of a vLLM server that saw given outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from profiler.outcomes import Outcomes

TTFT_BOUNDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0)
ITL_BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
E2E_BOUNDS = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0)
CACHE = {"block_size": "16", "enable_prefix_caching": "False", "num_gpu_blocks": "65536"}


def metrics_text(
    outcomes: Outcomes, slower: float = 1.0, cache: Mapping[str, str] | None = None
) -> str:
    """What the server would answer, had every time been `slower` times as long."""
    once = np.ones(outcomes.num_requests)
    parts = (
        ("time_to_first_token", outcomes.first_token_s - outcomes.arrival_s, once, TTFT_BOUNDS),
        ("inter_token_latency", outcomes.gap_s, outcomes.gap_weight.sum(axis=1), ITL_BOUNDS),
        ("e2e_request_latency", outcomes.finish_s - outcomes.arrival_s, once, E2E_BOUNDS),
    )
    lines = []
    for name, values, weight, bounds in parts:
        lines += _histogram(f"vllm:{name}_seconds", slower * values, weight, bounds)
    labels = ",".join(f'{k}="{v}"' for k, v in (CACHE if cache is None else cache).items())
    lines += ["# TYPE vllm:cache_config_info gauge", f"vllm:cache_config_info{{{labels}}} 1.0"]
    return "\n".join(lines) + "\n"


def _histogram(
    name: str, values: np.ndarray, weight: np.ndarray, bounds: Sequence[float]
) -> list[str]:
    lines = [f"# TYPE {name} histogram"]
    for bound in (*bounds, np.inf):
        count = weight[values <= bound].sum()
        label = "+Inf" if bound == np.inf else f"{bound:g}"
        lines.append(f'{name}_bucket{{engine="0",le="{label}"}} {count}')
    return [*lines, f'{name}_sum{{engine="0"}} {values @ weight}']
