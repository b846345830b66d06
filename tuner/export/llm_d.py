"""llm-d: values of the modelservice chart.

Rules: github.com/llm-d-incubation/llm-d-modelservice, chart v0.4.12,
`charts/llm-d-modelservice/values.schema.json` and its templates. An aggregated pool is the chart's
decode pool without the routing proxy. The chart passes `env` through Helm's templates.
"""

from __future__ import annotations

from typing import Any

from tuner.export.deployment import (
    PORT,
    TENSOR_PARALLEL,
    Deployment,
    EnginePool,
    Role,
    single_pool,
)
from tuner.export.pod import (
    KV_NOTE,
    SIDE_CHANNEL_FATES,
    env_list,
    model_claim,
    ports,
    probes,
    resources,
)
from tuner.export.routers import ONE_REPLICA
from tuner.export.settings_report import (
    Fates,
    Rendering,
    exported,
    not_expressible,
    rendering,
    translated,
)
from tuner.export.words import flag_words, kubernetes_text, yaml_text

_DECODE_PORT = 8200
"""of vLLM behind the routing proxy"""


def render(deployment: Deployment) -> Rendering:
    """`values.yaml`."""
    is_pd = deployment.is_pd
    decode = deployment.pool_with(Role.DECODE) if is_pd else single_pool(deployment, "llm-d")
    values: dict[str, Any] = {
        "fullnameOverride": deployment.name,
        "multinode": False,
        "accelerator": {"type": "nvidia" if deployment.has_gpus else "cpu"},
        "modelArtifacts": _artifacts(deployment),
        "routing": {
            "servicePort": PORT,
            "proxy": {"enabled": True, "connector": "nixlv2", "targetPort": _DECODE_PORT}
            if is_pd
            else {"enabled": False},
        },
        "decode": _pods(deployment, decode, _DECODE_PORT if is_pd else PORT),
        "prefill": _pods(deployment, deployment.pool_with(Role.PREFILL), PORT)
        if is_pd
        else {"create": False},
    }
    text = yaml_text(deployment.evidence, values)
    notes = [
        "The endpoint picker (InferencePool) is a chart of its own, gateway-api-inference-extension"
        f"; its pool must select the labels of modelArtifacts and port {PORT}.",
        *_model_notes(deployment),
        *([KV_NOTE] if is_pd else []),
    ]
    return rendering(deployment, {"values.yaml": text}, _fates(deployment), *notes)


def _artifacts(deployment: Deployment) -> dict[str, Any]:
    uri = f"hf://{deployment.model}"
    if deployment.model_is_folder:
        uri = f"pvc://{model_claim(deployment)}/model"
    labels = {"llm-d.ai/inference-serving": "true", "llm-d.ai/model": deployment.name}
    return {"name": deployment.model, "uri": uri, "labels": labels}


def _model_notes(deployment: Deployment) -> list[str]:
    if not deployment.model_is_folder:
        return []
    return [f"The volume claim {model_claim(deployment)} must hold the model in the folder model."]


def _pods(deployment: Deployment, pool: EnginePool, port: int) -> dict[str, Any]:
    flags = {f: v for f, v in deployment.arguments(pool).items() if f != TENSOR_PARALLEL}
    exposed = [p | ({"containerPort": port} if p["name"] == "http" else {}) for p in ports(pool)]
    container = {
        "name": "vllm",
        "image": deployment.image,
        "modelCommand": "vllmServe",
        "args": [kubernetes_text(word) for word in flag_words(flags)],
        "env": [_verbatim(variable) for variable in env_list(deployment, pool)],
        "ports": exposed,
        "resources": resources(pool),
        "mountModelVolume": deployment.model_is_folder,
        "extraConfig": probes(port),
    }
    return {
        "create": True,
        "replicas": pool.replicas,
        "parallelism": {"tensor": pool.tensor_parallel},
        "containers": [container],
    }


def _verbatim(variable: dict[str, Any]) -> dict[str, Any]:
    """A variable whose value Helm's templates leave as it is."""
    if "value" not in variable:
        return variable
    return variable | {"value": variable["value"].replace("{{", '{{ "{{" }}')}


def _fates(deployment: Deployment) -> Fates:
    rule = not_expressible("the endpoint picker has it, a chart of its own: set its scorers there")
    return {
        "deployment.name": exported("fullnameOverride"),
        "deployment.namespace": translated("helm install -n"),
        "deployment.model": translated("modelArtifacts.uri and name"),
        "deployment.engine_version": translated("tag of image"),
        "deployment.image": exported("containers[0].image"),
        "router": rule if deployment.has_choice else ONE_REPLICA,
        "pool.role": translated("values decode (decode or both) and prefill"),
        "pool.replicas": exported("replicas"),
        "pool.num_gpus": exported("containers[0].resources.limits")
        if deployment.has_gpus
        else translated("accelerator.type: cpu"),
        "flag": exported("containers[0].args"),
        f"flag.{TENSOR_PARALLEL}": translated("parallelism.tensor"),
        "environment": exported("containers[0].env"),
        "kv": exported("containers[0].args: --kv-transfer-config"),
        **SIDE_CHANNEL_FATES,
    }
