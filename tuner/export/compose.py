"""Docker compose: one service per replica, each with GPUs of its own, and `vllm-router` in front.

Rules: the Compose specification. A replica is a service, not `deploy.replicas`, for the router must
know each one's address and no two may get the same GPU (`count` gives every container the first
ones). Addresses are fixed because NIXL's side channel listens on an address, never on a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from profiler.errors import ExportError
from tuner.export.deployment import PORT, Deployment, EnginePool
from tuner.export.routers import ROUTER_IMAGE, ROUTER_PORT, router_words, vllm_router_fates
from tuner.export.settings_report import Rendering, exported, rendering, translated
from tuner.export.vllm import HOST_VARIABLE, command_words, environment_of
from tuner.export.words import yaml_text

_SUBNET = "172.31.240"
_FIRST_HOST = 10
_MOST_REPLICAS = 254 - _FIRST_HOST + 1


def render(deployment: Deployment) -> Rendering:
    """`compose.yaml`."""
    if deployment.num_replicas > _MOST_REPLICAS:
        raise ExportError(
            f"compose runs at most {_MOST_REPLICAS} replicas on one machine, got "
            f"{deployment.num_replicas}; export to kubernetes"
        )
    services: dict[str, Any] = {}
    urls: dict[str, list[str]] = {pool.label: [] for pool in deployment.pools}
    next_gpu = 0
    for number, (pool, name) in enumerate(_replicas(deployment)):
        address = f"{_SUBNET}.{_FIRST_HOST + number}"
        gpus = [str(next_gpu + i) for i in range(pool.num_gpus)]
        next_gpu += pool.num_gpus
        services[name] = _engine(deployment, pool, address, gpus)
        urls[pool.label].append(f"http://{name}:{PORT}")
    if deployment.has_choice:
        services["router"] = _router(deployment, urls, list(services))
    else:
        services[next(iter(services))]["ports"] = [f"127.0.0.1:{PORT}:{PORT}"]
    content = {
        "name": deployment.name,
        "services": services,
        "networks": {"fleet": {"ipam": {"config": [{"subnet": f"{_SUBNET}.0/24"}]}}},
    }
    notes = [
        f"GPUs 0 to {next_gpu - 1} of one machine are reserved; change device_ids for others."
        if next_gpu
        else "No GPU is reserved: the engine was tuned on processors.",
        f"Listens on 127.0.0.1:{ROUTER_PORT if deployment.has_choice else PORT} only.",
    ]
    text = yaml_text(deployment.evidence, content)
    return rendering(deployment, {"compose.yaml": text}, _fates(deployment), *notes)


def _replicas(deployment: Deployment) -> Iterator[tuple[EnginePool, str]]:
    for pool in deployment.pools:
        for i in range(pool.replicas):
            yield pool, f"{pool.label}-{i}"


def _engine(
    deployment: Deployment, pool: EnginePool, address: str, gpus: list[str]
) -> dict[str, Any]:
    words = [*command_words(deployment, pool), "--host", "0.0.0.0", "--port", str(PORT)]
    variables = environment_of(pool)
    if pool.kv_transfer is not None:
        variables |= {HOST_VARIABLE: address}
    service: dict[str, Any] = {
        "image": deployment.image,
        "entrypoint": ["vllm"],
        "command": [_literal(word) for word in words[1:]],
        "environment": {name: _literal(value) for name, value in variables.items()},
        "networks": {"fleet": {"ipv4_address": address}},
        "volumes": [_model_volume(deployment)],
        "ipc": "host",
        "restart": "unless-stopped",
        "healthcheck": _healthcheck(PORT, start_period="30m"),
    }
    if not deployment.model_is_folder:
        service["environment"]["HF_TOKEN"] = "${HF_TOKEN:-}"
    if gpus:
        device = {"driver": "nvidia", "device_ids": gpus, "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    return service


def _model_volume(deployment: Deployment) -> dict[str, Any]:
    if deployment.model_is_folder:
        source, target = _literal(deployment.model), _literal(deployment.model)
        return {"type": "bind", "source": source, "target": target, "read_only": True}
    cache = "/root/.cache/huggingface"
    source = "${HF_HOME:-~/.cache/huggingface}"
    return {"type": "bind", "source": source, "target": cache}


def _healthcheck(port: int, start_period: str) -> dict[str, Any]:
    code = f"import urllib.request as r; r.urlopen('http://127.0.0.1:{port}/health', timeout=5)"
    return {
        "test": ["CMD", "python3", "-c", code],
        "interval": "10s",
        "timeout": "10s",
        "retries": 3,
        "start_period": start_period,
    }


def _router(deployment: Deployment, urls: dict[str, list[str]], engines: list[str]) -> Any:
    return {
        "image": ROUTER_IMAGE,
        "command": [*router_words(deployment, urls), "--host", "0.0.0.0"],
        "networks": {"fleet": {"ipv4_address": f"{_SUBNET}.{_FIRST_HOST - 1}"}},
        "ports": [f"127.0.0.1:{ROUTER_PORT}:{ROUTER_PORT}"],
        "restart": "unless-stopped",
        "depends_on": {name: {"condition": "service_healthy"} for name in engines},
        "healthcheck": _healthcheck(ROUTER_PORT, start_period="1m"),
    }


def _literal(text: str) -> str:
    """`text` so that compose does not interpolate it."""
    return text.replace("$", "$$")


def _fates(deployment: Deployment) -> dict[str, Any]:
    return {
        "deployment.name": exported("name"),
        "deployment.namespace": translated("the project's network"),
        "deployment.model": exported("command"),
        "deployment.engine_version": translated("tag of image"),
        "deployment.image": exported("image"),
        **vllm_router_fates(deployment),
        "pool.role": translated("names of services"),
        "pool.replicas": translated("one service per replica"),
        "pool.num_gpus": exported("deploy.resources.reservations.devices")
        if deployment.has_gpus
        else translated("no device is reserved"),
        "flag": exported("command"),
        "environment": exported("environment"),
        "kv": exported("command: --kv-transfer-config"),
        "kv.side_channel_port": exported("environment"),
        "kv.side_channel_host": translated("environment: the fixed address of each service"),
    }
