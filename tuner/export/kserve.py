"""KServe: `LLMInferenceService`, and `InferenceService` for an aggregated pool.

Rules: github.com/kserve/kserve v0.20, CRDs `serving.kserve.io_llminferenceservices` (v1alpha2) and
`serving.kserve.io_inferenceservices` (v1beta1), and the templates in `config/llmisvcconfig`, whose
start command puts `VLLM_ADDITIONAL_ARGS` through the shell (`eval`): so it is quoted for one. They
choose the prefill, decode and routing parts themselves when `prefill` is given.
"""

from __future__ import annotations

import shlex
from typing import Any

from tuner.export.deployment import TENSOR_PARALLEL, Deployment, EnginePool, Role, single_pool
from tuner.export.pod import (
    KV_NOTE,
    SIDE_CHANNEL_FATES,
    env_list,
    model_claim,
    model_notes,
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
from tuner.simulator.router import PREFIX_AWARE

_ARGUMENTS = "VLLM_ADDITIONAL_ARGS"
_RUNTIME = "kserve-vllmserver"


def render(deployment: Deployment) -> Rendering:
    """`llminferenceservice.yaml`, and `inferenceservice.yaml` where there is one pool."""
    head = deployment.evidence
    files = {"llminferenceservice.yaml": yaml_text(head, _llm(deployment))}
    notes = [*model_notes(deployment), *([KV_NOTE] if deployment.is_pd else [])]
    if deployment.is_pd:
        notes.append("An InferenceService has no prefill and decode pools: none is written.")
    else:
        files["inferenceservice.yaml"] = yaml_text(head, _plain(deployment))
        notes.append(
            "The two files are alternatives: apply one. The InferenceService has no router of its "
            f"own and needs the runtime {_RUNTIME}."
        )
    return rendering(deployment, files, _fates(deployment), *notes)


def _meta(deployment: Deployment) -> dict[str, Any]:
    return {"name": deployment.name, "namespace": deployment.namespace}


def _uri(deployment: Deployment) -> str:
    if deployment.model_is_folder:
        return f"pvc://{model_claim(deployment)}"
    return f"hf://{deployment.model}"


def _llm(deployment: Deployment) -> dict[str, Any]:
    spec: dict[str, Any] = {"model": {"uri": _uri(deployment), "name": deployment.model}}
    if deployment.is_pd:
        spec |= _workload(deployment, deployment.pool_with(Role.DECODE))
        spec["prefill"] = _workload(deployment, deployment.pool_with(Role.PREFILL))
    else:
        spec |= _workload(deployment, single_pool(deployment, "kserve"))
    spec["router"] = {"route": {}, "gateway": {}, "scheduler": {}}
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": _meta(deployment),
        "spec": spec,
    }


def _workload(deployment: Deployment, pool: EnginePool) -> dict[str, Any]:
    words = flag_words(_other_flags(deployment, pool))
    arguments = {"name": _ARGUMENTS, "value": kubernetes_text(shlex.join(words))}
    container = {
        "name": "main",
        "image": deployment.image,
        "env": [*env_list(deployment, pool), arguments],
        "resources": resources(pool),
    }
    return {
        "replicas": pool.replicas,
        "parallelism": {"tensor": pool.tensor_parallel},
        "template": {"containers": [container]},
    }


def _other_flags(deployment: Deployment, pool: EnginePool) -> dict[str, Any]:
    return {f: v for f, v in deployment.arguments(pool).items() if f != TENSOR_PARALLEL}


def _plain(deployment: Deployment) -> dict[str, Any]:
    pool = single_pool(deployment, "kserve")
    model = {
        "modelFormat": {"name": "vLLM"},
        "runtime": _RUNTIME,
        "image": deployment.image,
        "storageUri": _uri(deployment),
        "args": [kubernetes_text(word) for word in flag_words(deployment.arguments(pool))],
        "env": env_list(deployment, pool),
        "resources": resources(pool),
    }
    predictor = {"minReplicas": pool.replicas, "maxReplicas": pool.replicas, "model": model}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": _meta(deployment)
        | {"annotations": {"serving.kserve.io/deploymentMode": "Standard"}},
        "spec": {"predictor": predictor},
    }


def _fates(deployment: Deployment) -> Fates:
    rule = not_expressible(
        "the endpoint picker scores replicas by queue, KV use and prefix; other scorers go into "
        "router.scheduler.config"
    )
    if deployment.router.rule == PREFIX_AWARE:
        rule = translated("the endpoint picker's own scorers, prefix among them")
    return {
        "deployment.name": exported("metadata.name"),
        "deployment.namespace": exported("metadata.namespace"),
        "deployment.model": translated(f"model.uri {_uri(deployment)}, model.name"),
        "deployment.engine_version": translated("tag of image"),
        "deployment.image": exported("image"),
        "router": rule if deployment.has_choice else ONE_REPLICA,
        "pool.role": translated("spec.template is decode or both, spec.prefill is prefill"),
        "pool.replicas": exported("replicas"),
        "pool.num_gpus": exported("resources.limits")
        if deployment.has_gpus
        else translated("no GPU is asked for"),
        "flag": exported(f"env {_ARGUMENTS}; args of the InferenceService"),
        f"flag.{TENSOR_PARALLEL}": translated("parallelism.tensor"),
        "environment": exported("env"),
        "kv": exported(f"env {_ARGUMENTS}: --kv-transfer-config"),
        **SIDE_CHANNEL_FATES,
    }
