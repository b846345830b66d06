"""NVIDIA Dynamo: a `DynamoGraphDeployment` (v1beta1), aggregated or with prefill and decode.

Rules: github.com/ai-dynamo/dynamo, `deploy/operator/api/v1beta1` and the examples in
`examples/backends/vllm/deploy/v1beta1`. Its runtime image brings a vLLM of its own, and its worker
overrides three engine arguments (`components/src/dynamo/vllm/args.py`).
"""

from __future__ import annotations

from typing import Any

from tuner.export.deployment import Deployment, EnginePool, Role
from tuner.export.pod import KV_NOTE, SIDE_CHANNEL_FATES, env_list, resources, volumes
from tuner.export.pod import model_notes as notes_on_model
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
from tuner.simulator.router import (
    LEAST_REQUESTS,
    LEAST_TOKENS,
    POWER_OF_TWO,
    PREFIX_AWARE,
    PRIORITY,
    PROMPT_LENGTH,
    ROUND_ROBIN,
)

RUNTIME_IMAGE = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.1"
_OVERRIDDEN = ("skip-tokenizer-init", "enable-log-requests", "disable-log-stats")
_TYPES = {Role.AGGREGATED: "worker", Role.PREFILL: "prefill", Role.DECODE: "decode"}
_MODE = "frontend: --router-mode"
_RULES: Choices = {
    ROUND_ROBIN: Choice("round-robin", exported(f"{_MODE} round-robin")),
    POWER_OF_TWO: Choice("power-of-two", exported(f"{_MODE} power-of-two")),
    LEAST_REQUESTS: Choice("least-loaded", exported(f"{_MODE} least-loaded")),
    PREFIX_AWARE: Choice(
        "kv", translated(f"{_MODE} kv --no-router-kv-events: a cost of cached and active blocks")
    ),
    LEAST_TOKENS: Choice(
        "least-loaded", not_expressible("no mode counts prompt tokens; least-loaded is in the file")
    ),
    PROMPT_LENGTH: Choice(
        "round-robin", not_expressible("no mode looks at lengths; round-robin is in the file")
    ),
    PRIORITY: Choice(
        "round-robin", not_expressible("no mode looks at priorities; round-robin is in the file")
    ),
}


def render(deployment: Deployment) -> Rendering:
    """`dynamographdeployment.yaml`."""
    graph = {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": deployment.name, "namespace": deployment.namespace},
        "spec": {
            "backendFramework": "vllm",
            "components": [
                _frontend(deployment),
                *(_worker(deployment, pool) for pool in deployment.pools),
            ],
        },
    }
    text = yaml_text(deployment.evidence, graph)
    notes = [
        f"{RUNTIME_IMAGE} brings its own vLLM; choose a tag with vLLM {deployment.engine_version} "
        '(python3 -c "import vllm; print(vllm.__version__)").',
        *notes_on_model(deployment),
        *([KV_NOTE] if deployment.is_pd else []),
    ]
    files = {"dynamographdeployment.yaml": text}
    return rendering(deployment, files, _fates(deployment), *notes)


def _frontend(deployment: Deployment) -> dict[str, Any]:
    replicas = max(pool.replicas for pool in deployment.pools)
    mode = choice(_RULES, _rule(deployment), replicas).name
    words = ["--router-mode", mode]
    if mode == "kv":
        words.append("--no-router-kv-events")
    container = {
        "name": "main",
        "image": RUNTIME_IMAGE,
        "command": ["python3", "-m", "dynamo.frontend"],
        "args": words,
    }
    return _component("Frontend", "frontend", 1, {"containers": [container]})


def _rule(deployment: Deployment) -> str:
    """The rule for the frontend's one mode: the prefill pool's, if that has a choice."""
    alone = deployment.is_pd and deployment.pool_with(Role.PREFILL).replicas == 1
    return deployment.router.decode_rule if alone else deployment.router.rule


def _component(name: str, kind: str, replicas: int, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        "replicas": replicas,
        "podTemplate": {"spec": spec},
    }


def _worker(deployment: Deployment, pool: EnginePool) -> dict[str, Any]:
    flags = {f: v for f, v in deployment.arguments(pool).items() if f not in _OVERRIDDEN}
    words = ["--model", deployment.model]
    if pool.role is not Role.AGGREGATED:
        words += ["--disaggregation-mode", str(pool.role)]
    words += flag_words(flags)
    container = {
        "name": "main",
        "image": RUNTIME_IMAGE,
        "command": ["python3", "-m", "dynamo.vllm"],
        "args": [kubernetes_text(word) for word in words],
        "env": env_list(deployment, pool),
        "resources": resources(pool),
    }
    spec: dict[str, Any] = {"containers": [container]}
    if deployment.model_is_folder:
        named, mounts = volumes(deployment)  # the first is shared memory, which the operator mounts
        container["volumeMounts"] = mounts[1:]
        spec["volumes"] = named[1:]
    return _component(pool.label, _TYPES[pool.role], pool.replicas, spec)


def _rule_fates(deployment: Deployment) -> Fates:
    """One frontend routes to both pools by one mode."""
    fates = dict(rule_fates(deployment, _RULES))
    router = deployment.router
    both = deployment.is_pd and all(pool.replicas > 1 for pool in deployment.pools)
    if both and router.decode_rule != router.rule:
        fates["router.decode_rule"] = not_expressible("the frontend has one mode for both pools")
    return fates


def _fates(deployment: Deployment) -> Fates:
    overridden = not_expressible("Dynamo's worker sets it itself")
    return {
        "deployment.name": exported("metadata.name"),
        "deployment.namespace": exported("metadata.namespace"),
        "deployment.model": exported("args: --model"),
        "deployment.engine_version": not_expressible("the runtime image brings its own vLLM"),
        "deployment.image": translated(RUNTIME_IMAGE),
        "router": not_expressible("the frontend has no such setting")
        if deployment.has_choice
        else ONE_REPLICA,
        **_rule_fates(deployment),
        "pool.role": translated("type and --disaggregation-mode"),
        "pool.replicas": exported("replicas"),
        "pool.num_gpus": exported("resources.limits")
        if deployment.has_gpus
        else not_expressible("the runtime image is for GPUs"),
        "flag": exported("args"),
        **{f"flag.{flag}": overridden for flag in _OVERRIDDEN},
        "environment": exported("env"),
        "kv": exported("args: --kv-transfer-config"),
        **SIDE_CHANNEL_FATES,
    }
