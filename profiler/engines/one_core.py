"""Engine settings for several CPU engines on one machine, each bound to a core of its own."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from profiler.engines.base import EngineSpec
from profiler.engines.transfer_file import TRANSFERS_VARIABLE
from profiler.errors import MissingExtraError

PREFILL, DECODE = "kv_producer", "kv_consumer"
"""vLLM's names for the two roles"""
_UNIPROC = "uni"
_LOOPBACK = "127.0.0.1"


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
    arguments = {"distributed_executor_backend": _UNIPROC, "enforce_eager": True}
    return replace(
        spec,
        engine_args={**arguments, **spec.engine_args},
        environment={**own, **spec.environment},
    )


def nixl_spec(spec: EngineSpec, role: str, port: int, transfers: Path) -> EngineSpec:
    """`spec` as a prefill or a decode engine that moves KV over NIXL.

    Parameters
    ----------
    role
        `PREFILL` or `DECODE`.
    port
        Free, for the hand-shake between engines (NIXL's side channel).
    transfers
        Where the connector records transfers (`transfer_file`).

    Raises
    ------
    MissingExtraError
        NIXL is not installed.
    """
    if find_spec("nixl") is None:
        raise MissingExtraError(
            "NIXL, which moves KV between engines, is not installed; install stallfree[nixl]"
        )
    transfer: dict[str, Any] = {
        "kv_connector": "CpuNixlConnector",
        "kv_connector_module_path": "profiler.engines.vllm.cpu_nixl",
        "kv_role": role,
        "kv_buffer_device": "cpu",
    }
    own = {
        "VLLM_NIXL_SIDE_CHANNEL_HOST": _LOOPBACK,
        "VLLM_NIXL_SIDE_CHANNEL_PORT": str(port),
        "UCX_TLS": "all",
        "UCX_NET_DEVICES": "lo",
        TRANSFERS_VARIABLE: str(transfers),
    }
    return replace(
        spec,
        engine_args={"kv_transfer_config": transfer, **spec.engine_args},
        environment={**own, **spec.environment},
    )


def _openmp() -> dict[str, str]:
    """PyTorch's OpenMP loaded before any other, so that there is one in the process."""
    torch = find_spec("torch")
    for folder in (torch and torch.submodule_search_locations) or ():
        if found := sorted(Path(folder, "lib").glob("libgomp*.so*")):
            return {"LD_PRELOAD": str(found[0])}
    return {}
