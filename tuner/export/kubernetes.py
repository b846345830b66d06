"""Plain Kubernetes: per pool a Deployment and a Service, and `vllm-router` where it has a choice.

The router finds replicas by their labels (`--service-discovery`), so that scaling a pool needs no
other change; for that it may read the pods of its own namespace.
"""

from __future__ import annotations

from typing import Any

from tuner.export.deployment import PORT, Deployment, EnginePool, Role
from tuner.export.pod import (
    KV_NOTE,
    SIDE_CHANNEL_FATES,
    env_list,
    model_notes,
    ports,
    probes,
    resources,
    volumes,
)
from tuner.export.routers import ROUTER_IMAGE, ROUTER_PORT, policy_flags, vllm_router_fates
from tuner.export.settings_report import Rendering, exported, rendering, translated
from tuner.export.vllm import command_words
from tuner.export.words import kubernetes_text, yaml_text

_APP, _KIND, _ROLE = "app.kubernetes.io/name", "app.kubernetes.io/component", "stallfree/role"
_ENGINE, _ROUTER = "engine", "router"
_HPA_HINT = (
    "A hint, not applied by itself: it needs an adapter that offers vLLM's metric",
    "vllm:num_requests_waiting as the pods metric vllm_num_requests_waiting.",
    "The configuration was chosen for a fixed number of replicas; scaling changes its figures.",
)


def render(deployment: Deployment) -> Rendering:
    """`kubernetes.yaml`, and `hpa.yaml` as a hint."""
    objects: list[dict[str, Any]] = []
    for pool in deployment.pools:
        objects += [_workload(deployment, pool), _service(deployment, pool.label, PORT)]
    if deployment.has_choice:
        objects += _router_objects(deployment)
    scalers = [_scaler(deployment, pool) for pool in deployment.pools]
    files = {
        "kubernetes.yaml": yaml_text(deployment.evidence, *objects),
        "hpa.yaml": yaml_text(_HPA_HINT, *scalers),
    }
    notes = [*model_notes(deployment), *([KV_NOTE] if deployment.is_pd else [])]
    return rendering(deployment, files, _fates(deployment), *notes)


def _meta(deployment: Deployment, part: str) -> dict[str, Any]:
    kind = _ROUTER if part == _ROUTER else _ENGINE
    labels = {_APP: deployment.name, _KIND: kind, _ROLE: part}
    name = f"{deployment.name}-{part}"
    return {"name": name, "namespace": deployment.namespace, "labels": labels}


def _apps(deployment: Deployment, part: str, replicas: int, spec: dict[str, Any]) -> dict[str, Any]:
    meta = _meta(deployment, part)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta,
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": meta["labels"]},
            "template": {"metadata": {"labels": meta["labels"]}, "spec": spec},
        },
    }


def _workload(deployment: Deployment, pool: EnginePool) -> dict[str, Any]:
    words = [*command_words(deployment, pool), "--host", "0.0.0.0", "--port", str(PORT)]
    named, mounts = volumes(deployment)
    container = {
        "name": "vllm",
        "image": deployment.image,
        "command": words[:2],
        "args": [kubernetes_text(word) for word in words[2:]],
        "env": env_list(deployment, pool),
        "ports": ports(pool),
        **probes(PORT),
        "resources": resources(pool),
        "volumeMounts": mounts,
    }
    # service links would set variables of the service's name, some of which vLLM reads
    spec = {"enableServiceLinks": False, "containers": [container], "volumes": named}
    return _apps(deployment, pool.label, pool.replicas, spec)


def _service(deployment: Deployment, part: str, port: int) -> dict[str, Any]:
    meta = _meta(deployment, part)
    ports = [{"name": "http", "port": port, "targetPort": port}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta,
        "spec": {"selector": meta["labels"], "ports": ports},
    }


def _router_objects(deployment: Deployment) -> list[dict[str, Any]]:
    meta = _meta(deployment, _ROUTER)
    name, group = meta["name"], "rbac.authorization.k8s.io"
    container = {
        "name": "router",
        "image": ROUTER_IMAGE,
        "command": ["vllm-router"],
        "args": _router_args(deployment),
        "ports": [{"name": "http", "containerPort": ROUTER_PORT}],
        **probes(ROUTER_PORT),
    }
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {
            "apiVersion": f"{group}/v1",
            "kind": "Role",
            "metadata": meta,
            "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
            ],
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "subjects": [
                {"kind": "ServiceAccount", "name": name, "namespace": deployment.namespace}
            ],
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        },
        _apps(deployment, _ROUTER, 1, {"serviceAccountName": name, "containers": [container]}),
        _service(deployment, _ROUTER, ROUTER_PORT),
    ]


def _router_args(deployment: Deployment) -> list[str]:
    words = ["--host", "0.0.0.0", "--port", str(ROUTER_PORT), *policy_flags(deployment)]
    words += ["--service-discovery", "--service-discovery-port", str(PORT)]
    words += ["--service-discovery-namespace", deployment.namespace]
    if not deployment.is_pd:
        return [*words, "--selector", f"{_APP}={deployment.name}", f"{_KIND}={_ENGINE}"]
    words.append("--vllm-pd-disaggregation")
    for role in (Role.PREFILL, Role.DECODE):
        label = deployment.pool_with(role).label
        words += [f"--{role}-selector", f"{_APP}={deployment.name}", f"{_ROLE}={label}"]
    return words


def _scaler(deployment: Deployment, pool: EnginePool) -> dict[str, Any]:
    metric = {
        "type": "Pods",
        "pods": {
            "metric": {"name": "vllm_num_requests_waiting"},
            "target": {"type": "AverageValue", "averageValue": "5"},
        },
    }
    meta = _meta(deployment, pool.label)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": meta["name"]}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": meta,
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": pool.replicas,
            "maxReplicas": 2 * pool.replicas,
            "metrics": [metric],
        },
    }


def _fates(deployment: Deployment) -> dict[str, Any]:
    model = "volume claim, mounted at the path" if deployment.model_is_folder else "args"
    return {
        "deployment.name": exported("metadata.name"),
        "deployment.namespace": exported("metadata.namespace"),
        "deployment.model": exported(model),
        "deployment.engine_version": translated("tag of image"),
        "deployment.image": exported("image"),
        **vllm_router_fates(deployment),
        "pool.role": translated("label stallfree/role"),
        "pool.replicas": exported("spec.replicas"),
        "pool.num_gpus": exported("resources.limits")
        if deployment.has_gpus
        else translated("no GPU is asked for"),
        "flag": exported("args"),
        "environment": exported("env"),
        "kv": exported("args: --kv-transfer-config"),
        **SIDE_CHANNEL_FATES,
    }
