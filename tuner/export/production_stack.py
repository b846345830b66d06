"""Helm values for the vLLM production stack.

Rules: github.com/vllm-project/production-stack, chart vllm-stack 0.1.12, `helm/values.schema.json`
and `helm/templates/deployment-vllm-multi.yaml`. The chart switches prefix caching off when
`enablePrefixCaching` is not given, so it always is.
"""

from __future__ import annotations

from typing import Any

from tuner.export.deployment import PORT, TENSOR_PARALLEL, Deployment, EnginePool, Role
from tuner.export.pod import (
    KV_NOTE,
    SIDE_CHANNEL_FATES,
    env_list,
    model_notes,
    resources,
    volumes,
)
from tuner.export.routers import ONE_REPLICA, Choice, Choices, choice, rule_fates
from tuner.export.settings_report import (
    Fates,
    Rendering,
    exported,
    not_expressible,
    rendering,
    translated,
)
from tuner.export.words import flag_words, kubernetes_text, yaml_text
from tuner.simulator.router import PREFIX_AWARE, ROUND_ROBIN, RULES

_KEYS = {
    "max-model-len": "maxModelLen",
    "max-num-seqs": "maxNumSeqs",
    "dtype": "dtype",
    "gpu-memory-utilization": "gpuMemoryUtilization",
    "enable-chunked-prefill": "enableChunkedPrefill",
    "enable-prefix-caching": "enablePrefixCaching",
    TENSOR_PARALLEL: "tensorParallelSize",
}
"""flag -> key of `vllmConfig`"""
_NO_RULE = not_expressible("the stack's router has no such rule; roundrobin is in the files")
_AGGREGATED: Choices = dict.fromkeys(RULES, Choice("roundrobin", _NO_RULE)) | {
    ROUND_ROBIN: Choice("roundrobin", exported("routerSpec.routingLogic")),
    PREFIX_AWARE: Choice(
        "prefixaware", translated("routerSpec.routingLogic: prefixaware, without a load limit")
    ),
}
_PD_LOGIC = "disaggregated_prefill_orchestrated"
_PD: Choices = dict.fromkeys(
    RULES, Choice(_PD_LOGIC, not_expressible("prefill and decode replicas are taken in turn"))
) | {ROUND_ROBIN: Choice(_PD_LOGIC, translated(f"routerSpec.routingLogic: {_PD_LOGIC}"))}


def render(deployment: Deployment) -> Rendering:
    """`values.yaml`."""
    values = {
        "servingEngineSpec": {
            "enableEngine": True,
            "runtimeClassName": "nvidia" if deployment.has_gpus else "",
            "labels": {"stallfree/deployment": deployment.name},
            "containerPort": PORT,
            "modelSpec": [_model(deployment, pool) for pool in deployment.pools],
        },
        "routerSpec": _router(deployment),
    }
    text = yaml_text(deployment.evidence, values)
    notes = [
        "helm repo add vllm https://vllm-project.github.io/production-stack",
        *model_notes(deployment),
        *([KV_NOTE] if deployment.is_pd else []),
    ]
    return rendering(deployment, {"values.yaml": text}, _fates(deployment), *notes)


def _model(deployment: Deployment, pool: EnginePool) -> dict[str, Any]:
    repository, tag = deployment.image.rsplit(":", 1)
    model: dict[str, Any] = {
        "name": pool.label,
        "repository": repository,
        "tag": tag,
        "modelURL": deployment.model,
        "replicaCount": pool.replicas,
        # an empty one makes the chart ask for requestCPU and requestMemory
        "resources": resources(pool) or {"requests": {"cpu": "1"}},
        "vllmConfig": _config(deployment, pool),
        "env": env_list(deployment, pool),
    }
    if deployment.model_is_folder:
        named, mounts = volumes(deployment)
        model |= {"extraVolumes": named[1:], "extraVolumeMounts": mounts[1:]}
    return model


def _config(deployment: Deployment, pool: EnginePool) -> dict[str, Any]:
    flags = deployment.arguments(pool)
    named = {TENSOR_PARALLEL: 1, "enable-prefix-caching": True, **flags}
    config: dict[str, Any] = {key: named[f] for f, key in _KEYS.items() if f in named}
    others = {f: v for f, v in flags.items() if f not in _KEYS}
    return config | {"extraArgs": [kubernetes_text(word) for word in flag_words(others)]}


def _router(deployment: Deployment) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "enableRouter": True,
        "replicaCount": 1,
        "serviceDiscovery": "k8s",
        "labels": {"stallfree/router": deployment.name},
    }
    if not deployment.is_pd:
        logic = choice(_AGGREGATED, deployment.router.rule, deployment.num_replicas).name
        return spec | {"routingLogic": logic}
    labels = [deployment.pool_with(role).label for role in (Role.PREFILL, Role.DECODE)]
    words = ["--prefill-model-labels", labels[0], "--decode-model-labels", labels[1]]
    return spec | {"routingLogic": _PD_LOGIC, "extraArgs": words}


def _fates(deployment: Deployment) -> Fates:
    keys = {f"flag.{flag}": exported(f"vllmConfig.{key}") for flag, key in _KEYS.items()}
    return {
        "deployment.name": translated("name of the release; labels"),
        "deployment.namespace": translated("helm install -n"),
        "deployment.model": exported("modelURL"),
        "deployment.engine_version": translated("tag"),
        "deployment.image": exported("repository and tag"),
        "router": ONE_REPLICA
        if not deployment.has_choice
        else not_expressible("the stack's router has no such setting"),
        **rule_fates(deployment, _PD if deployment.is_pd else _AGGREGATED),
        "pool.role": translated("name, which the router knows the pods by"),
        "pool.replicas": exported("replicaCount"),
        "pool.num_gpus": exported("resources.limits")
        if deployment.has_gpus
        else translated("no GPU is asked for"),
        "flag": exported("vllmConfig.extraArgs"),
        **keys,
        "environment": exported("env"),
        "kv": exported("vllmConfig.extraArgs: --kv-transfer-config"),
        **SIDE_CHANNEL_FATES,
    }
