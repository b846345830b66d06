"""Deployment targets by name: how each is rendered, applied, taken back, and checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from profiler.errors import StudyError
from tuner.export import (
    compose,
    dynamo,
    kserve,
    kubernetes,
    llm_d,
    production_stack,
    ray_serve,
    vllm,
)
from tuner.export.deployment import Deployment
from tuner.export.settings_report import Rendering


@dataclass(frozen=True)
class Target:
    """One kind of deployment. Commands have {file}, {name} and {namespace} to fill in."""

    render: Callable[[Deployment], Rendering]
    apply: tuple[str, ...]
    """commands that put {file}, ours or the previous one, into effect"""
    watch: tuple[str, ...]
    """commands that show when it is in effect"""
    rules: str
    """what its files are checked against in the tests"""
    start: Callable[[Deployment], tuple[str, ...]] | None = None
    """commands for our files, where they are not those of `apply`"""


_KUBECTL = ("kubectl apply -f {file}",)
_GET = "kubectl -n {namespace} get"
_STACK = "helm upgrade --install {name} vllm/vllm-stack --version 0.1.12 -n {namespace}"
_LLM_D = "helm upgrade --install {name} llm-d-modelservice/llm-d-modelservice --version v0.4.12"

TARGETS: dict[str, Target] = {
    "vllm": Target(
        vllm.render,
        ("vllm serve --config {file}",),
        ("curl -f http://127.0.0.1:8000/health",),
        "vLLM's own parser and configuration, version 0.32.0 (CPU build)",
        vllm.start_commands,
    ),
    "compose": Target(
        compose.render,
        ("docker compose -p {name} -f {file} up -d --wait --remove-orphans",),
        ("docker compose -p {name} ps",),
        "the Compose specification, schema/compose-spec.json",
    ),
    "kubernetes": Target(
        kubernetes.render,
        _KUBECTL,
        (f"{_GET} deployments,pods -l app.kubernetes.io/name={{name}}",),
        "the schemas of Kubernetes 1.37, strict",
    ),
    "production-stack": Target(
        production_stack.render,
        (f"{_STACK} -f {{file}}",),
        (f"{_GET} pods -l stallfree/deployment={{name}}", "helm -n {namespace} status {name}"),
        "the values schema of the chart vllm-stack 0.1.12",
    ),
    "kserve": Target(
        kserve.render,
        _KUBECTL,
        (f"{_GET} llminferenceservice,inferenceservice {{name}}",),
        "the CRDs of KServe v0.20",
    ),
    "llm-d": Target(
        llm_d.render,
        (f"{_LLM_D} -n {{namespace}} -f {{file}}",),
        (f"{_GET} pods -l llm-d.ai/model={{name}}", "helm -n {namespace} status {name}"),
        "the values schema of the chart llm-d-modelservice v0.4.12",
    ),
    "dynamo": Target(
        dynamo.render,
        _KUBECTL,
        (f"{_GET} dynamographdeployment {{name}}",),
        "the types of the v1beta1 CRD DynamoGraphDeployment and Kubernetes 1.37's pod template",
    ),
    "ray-serve": Target(
        ray_serve.render,
        ("serve deploy {file}",),
        ("serve status",),
        "the fields of Ray Serve LLM's LLMConfig and of vLLM 0.32.0's AsyncEngineArgs; Ray "
        "publishes no schema file",
    ),
}


def target_named(name: str) -> Target:
    """The target called `name`. Raises `StudyError` naming the known ones."""
    if name not in TARGETS:
        raise StudyError(f"unknown export target {name!r}; known: {', '.join(TARGETS)}")
    return TARGETS[name]


def render(deployment: Deployment, target: str) -> Rendering:
    """The files of `deployment` for `target`, and what became of every setting.

    Raises
    ------
    StudyError
        There is no such target.
    ExportError
        The target cannot run this deployment.
    """
    return target_named(target).render(deployment)
