"""Parts of Kubernetes pods that several targets share."""

from __future__ import annotations

from typing import Any

from tuner.export.deployment import PORT, Deployment, EnginePool
from tuner.export.settings_report import exported
from tuner.export.vllm import HOST_VARIABLE, PORT_VARIABLE, environment_of
from tuner.export.words import kubernetes_text

GPU = "nvidia.com/gpu"
SIDE_CHANNEL = "status.podIP"
TOKEN_SECRET = "hf-token"
"""secret with the key `token`, for models that need one; optional"""


def env_list(deployment: Deployment, pool: EnginePool) -> list[dict[str, Any]]:
    """`env` of the engine's container."""
    named = [{"name": k, "value": kubernetes_text(v)} for k, v in environment_of(pool).items()]
    own = {"name": HOST_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": SIDE_CHANNEL}}}
    return [*named, *([own] if pool.kv_transfer else []), *token_env(deployment)]


def token_env(deployment: Deployment) -> list[dict[str, Any]]:
    """The token for published models, if the cluster has one."""
    if deployment.model_is_folder:
        return []
    secret = {"name": TOKEN_SECRET, "key": "token", "optional": True}
    return [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": secret}}]


def resources(pool: EnginePool) -> dict[str, Any]:
    """GPUs of a container; nothing for an engine on processors, whose cores are the node's."""
    if not pool.num_gpus:
        return {}
    return {"limits": {GPU: str(pool.num_gpus)}, "requests": {GPU: str(pool.num_gpus)}}


def probes(port: int) -> dict[str, Any]:
    """Half an hour to load a model; then out of the service after 30 s of silence, and restarted
    after a minute."""
    health = {"httpGet": {"path": "/health", "port": port}, "periodSeconds": 10}
    return {
        "startupProbe": health | {"failureThreshold": 180},
        "readinessProbe": health | {"failureThreshold": 3, "timeoutSeconds": 5},
        "livenessProbe": health | {"failureThreshold": 6, "timeoutSeconds": 5},
    }


def ports(pool: EnginePool) -> list[dict[str, Any]]:
    """`ports` of the engine's container."""
    http = [{"name": "http", "containerPort": PORT}]
    if pool.kv_transfer is None:
        return http
    return [*http, {"name": "kv", "containerPort": pool.kv_transfer.side_channel_port}]


def volumes(deployment: Deployment) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(`volumes`, `volumeMounts`): shared memory, and the model where it is a folder."""
    named: list[dict[str, Any]] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    mounts: list[dict[str, Any]] = [{"name": "shm", "mountPath": "/dev/shm"}]
    if deployment.model_is_folder:
        claim = {"claimName": model_claim(deployment), "readOnly": True}
        named.append({"name": "model", "persistentVolumeClaim": claim})
        mounts.append({"name": "model", "mountPath": deployment.model, "readOnly": True})
    return named, mounts


def model_claim(deployment: Deployment) -> str:
    """Name of the volume claim that must hold a model that is a folder."""
    return f"{deployment.name}-model"


def model_notes(deployment: Deployment) -> list[str]:
    """What to prepare for the model."""
    if deployment.model_is_folder:
        return [f"The volume claim {model_claim(deployment)} must hold the files of the model."]
    return [f"A model that needs a token reads it from the secret {TOKEN_SECRET}, key token."]


KV_NOTE = "The image must contain NIXL; vLLM's own images do."
SIDE_CHANNEL_FATES = {
    "kv.side_channel_port": exported(f"env {PORT_VARIABLE}"),
    "kv.side_channel_host": exported(f"env {HOST_VARIABLE}: {SIDE_CHANNEL}"),
}
"""what becomes of the address that a pod's handshake listens on"""
