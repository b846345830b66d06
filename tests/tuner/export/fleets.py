"""Deployments made by hand, one per kind, with every setting as it is not by default."""

from __future__ import annotations

import functools
from typing import Any

from tuner.export.deployment import Deployment, EnginePool, KvTransfer, Role
from tuner.export.settings_report import Rendering
from tuner.export.targets import render
from tuner.simulator.router import POWER_OF_TWO, Router

FLAGS: dict[str, Any] = {
    "dtype": "bfloat16",
    "tensor-parallel-size": 2,
    "gpu-memory-utilization": 0.92,
    "hf-overrides": {"rope_theta": 2.0, "x": False, "text": "a $(B) $C 'd'"},
    "enforce-eager": False,
    "max-num-batched-tokens": 512,
    "max-num-scheduled-tokens": 256,
    "max-num-seqs": 64,
    "max-num-active-seqs": 32,
    "long-prefill-token-threshold": 128,
    "long-prefill-token-threshold-adaptive": False,
    "scheduler-reserve-full-isl": False,
    "enable-chunked-prefill": True,
    "watermark": 0.01,
    "scheduling-policy": "priority",
    "enable-prefix-caching": False,
    "async-scheduling": False,
    "max-model-len": 4096,
    "block-size": 32,
    "num-gpu-blocks-override": 1000,
    "disable-chunked-mm-input": True,
    "spec-tokens": 3,
    "spec-method": "ngram",
    "cudagraph-capture-sizes": [1, 2, 4],
}
"""every knob, false and true, a list, and a value that shells and templates would change"""
ENVIRONMENT = {"VLLM_LOGGING_LEVEL": "WARNING", "ODD": "a $(B) {{ c }} $D"}
EVIDENCE = ("Stallfree, study chat: made by hand.",)


def aggregated(replicas: int = 3, **changes: Any) -> Deployment:
    """`replicas` equal ones, routed by the power of two choices."""
    pool = EnginePool(
        label=Role.AGGREGATED,
        replicas=replicas,
        num_gpus=2,
        flags=FLAGS,
        environment=ENVIRONMENT,
    )
    given: dict[str, Any] = {
        "name": "chat",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "engine_version": "0.32.0",
        "pools": (pool,),
        "router": Router(rule=POWER_OF_TWO),
        "namespace": "serving",
        "evidence": EVIDENCE,
    }
    return Deployment(**given | changes)


def disaggregated(**changes: Any) -> Deployment:
    """Two prefill and three decode replicas with different settings."""
    prefill = EnginePool(
        label=Role.PREFILL,
        role=Role.PREFILL,
        replicas=2,
        num_gpus=1,
        flags={"max-num-batched-tokens": 8192, "enable-prefix-caching": False},
        environment={"UCX_TLS": "cuda_ipc,cuda_copy,tcp"},
        kv_transfer=KvTransfer(kv_role="kv_producer", extra={"backends": ["UCX"]}),
    )
    decode = EnginePool(
        label=Role.DECODE,
        role=Role.DECODE,
        replicas=3,
        num_gpus=2,
        flags={"tensor-parallel-size": 2, "max-num-seqs": 256, "async-scheduling": True},
        kv_transfer=KvTransfer(
            kv_role="kv_consumer", load_failure_policy="recompute", side_channel_port=5700
        ),
    )
    return aggregated(pools=(prefill, decode), **changes)


FLEETS = {"aggregated": aggregated(), "pd": disaggregated()}


@functools.cache
def rendered(target: str, fleet: str) -> Rendering:
    """The fleet called so, for `target`; made once."""
    return render(FLEETS[fleet], target)
