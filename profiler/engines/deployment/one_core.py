"""Deployments of CPU engines on one machine, each server bound to a core of its own."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from profiler.engines.base import EngineSpec
from profiler.engines.deployment.spec import DeploymentSpec, ServerSpec
from profiler.errors import KnobError, MissingExtraError

_LOOPBACK = "127.0.0.1"


def one_core_replicas(spec: EngineSpec, cores: Sequence[int]) -> DeploymentSpec:
    """An aggregated replica of `spec` on each of `cores`.

    Raises
    ------
    KnobError
        A core is named twice, or is not this process's to use.
    """
    _check_cores(cores)
    engine = one_core_spec(spec)
    return DeploymentSpec(aggregated=tuple(ServerSpec(engine, (core,)) for core in cores))


def one_core_pair(spec: EngineSpec, cores: tuple[int, int]) -> DeploymentSpec:
    """A prefill and a decode server of `spec`, on the first and the second of `cores`, that move
    KV over NIXL and record what moved when.

    Raises
    ------
    KnobError
        As `one_core_replicas`.
    MissingExtraError
        NIXL is not installed.
    """
    _check_cores(cores)
    if find_spec("nixl") is None:
        raise MissingExtraError(
            "NIXL, which moves KV between engines, is not installed; install stallfree[nixl]"
        )
    engine = one_core_spec(spec)
    prefill, decode = (nixl_spec(engine, role) for role in ("kv_producer", "kv_consumer"))
    return DeploymentSpec(
        prefill=(ServerSpec(prefill, cores[:1]),), decode=(ServerSpec(decode, cores[1:]),)
    )


def one_core_spec(spec: EngineSpec) -> EngineSpec:
    """`spec` with one computing thread, for a server whose processes are bound to one core.

    The engine core computes by itself (vLLM's executor "uni", which its CPU build allows only with
    `VLLM_ENABLE_V1_MULTIPROCESSING=0`), for a worker process beside it would wait for it by
    spinning on the same core. vLLM's own binding is off, because it would look at the whole
    machine. What `spec` gives wins.
    """
    own = {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_HOST_IP": _LOOPBACK,
        "OMP_NUM_THREADS": "1",
        **_openmp(),
    }
    arguments = {"distributed_executor_backend": "uni", "enforce_eager": True}
    return replace(
        spec,
        engine_args={**arguments, **spec.engine_args},
        environment={**own, **spec.environment},
    )


def nixl_spec(spec: EngineSpec, role: str) -> EngineSpec:
    """`spec` with our NIXL connector in the given role (vLLM's `kv_role`)."""
    transfer = {
        "kv_connector": "CpuNixlConnector",
        "kv_connector_module_path": "profiler.engines.vllm.cpu_nixl",
        "kv_role": role,
        "kv_buffer_device": "cpu",
    }
    own = {
        "VLLM_NIXL_SIDE_CHANNEL_HOST": _LOOPBACK,
        "VLLM_NIXL_SIDE_CHANNEL_PORT": str(_free_port()),
        "UCX_TLS": "all",
        "UCX_NET_DEVICES": "lo",
    }
    return replace(
        spec,
        engine_args={"kv_transfer_config": transfer, **spec.engine_args},
        environment={**own, **spec.environment},
    )


def _check_cores(cores: Sequence[int]) -> None:
    ours = sorted(os.sched_getaffinity(0))
    if len(set(cores)) < len(cores) or not set(cores) <= set(ours):
        raise KnobError(
            f"each server needs a core of its own out of {ours}, got {list(cores)}; name others, "
            "or start fewer servers"
        )


def _openmp() -> dict[str, str]:
    """PyTorch's OpenMP loaded before any other, so that there is one in the process."""
    torch = find_spec("torch")
    for folder in (torch and torch.submodule_search_locations) or ():
        if found := sorted(Path(folder, "lib").glob("libgomp*.so*")):
            return {"LD_PRELOAD": str(found[0])}
    return {}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port
