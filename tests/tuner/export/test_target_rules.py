"""Exports against their targets' own rules: CRDs, values schemas, compose, Kubernetes, Prometheus.

Kubernetes' own schemas come with `kubernetes-validate`; the other rules are tables drawn from the
public sources that each names.
"""

from __future__ import annotations

import json
from typing import Any

import kubernetes_validate
import pytest

from tests.tuner.export.extract import documents, flags_of
from tests.tuner.export.fleets import FLEETS, aggregated, disaggregated
from tests.tuner.export.rule_check import RULES, load_rules, problems
from tuner.export.canary import alert_rules
from tuner.export.deployment import Deployment
from tuner.export.routers import router_words
from tuner.export.targets import render
from tuner.simulator.router import RULES as ROUTER_RULES
from tuner.simulator.router import Router

KUBERNETES = "1.37"
TABLES = {
    "compose": {"compose.yaml": "compose"},
    "production-stack": {"values.yaml": "production_stack"},
    "kserve": {
        "llminferenceservice.yaml": "kserve_llm",
        "inferenceservice.yaml": "kserve_plain",
    },
    "llm-d": {"values.yaml": "llm_d"},
    "dynamo": {"dynamographdeployment.yaml": "dynamo"},
    "ray-serve": {"serve.yaml": "ray_serve"},
}
OTHERS = {
    "folder": aggregated(model="/models/a model"),
    "alone": aggregated(replicas=1),
}
DEPLOYMENTS = {**FLEETS, **OTHERS}


@pytest.mark.parametrize("name", DEPLOYMENTS)
@pytest.mark.parametrize("target", TABLES)
def test_files_keep_to_the_rules_of_their_target(target: str, name: str) -> None:
    files = render(DEPLOYMENTS[name], target).files
    for file, text in files.items():
        (content,) = documents(text)
        assert list(problems(load_rules(TABLES[target][file]), content)) == []


def broken(content: Any, path: list[Any], value: Any) -> Any:
    """A copy of `content` with `value` at `path`."""
    copy = json.loads(json.dumps(content))
    node = copy
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return copy


@pytest.mark.parametrize(
    ("target", "path", "value", "message"),
    [
        ("compose", ["services", "router", "health_check"], {}, "no field health_check"),
        ("compose", ["services", "router", "image"], 3, "string expected"),
        ("production-stack", ["routerSpec", "routingLogic"], "least", "one of"),
        ("production-stack", ["servingEngineSpec", "modelSpec", 0, "vllmConfig", "maxNumSeqs"],
         "64", "integer expected"),
        ("kserve", ["spec", "prefill", "replica"], 2, "no field replica"),
        ("kserve", ["spec", "model"], {"name": "x"}, "uri is missing"),
        ("llm-d", ["routing", "proxy", "targetPort"], "8200", "integer expected"),
        ("llm-d", ["decode", "containers", 0, "modelCommand"], "serve", "one of"),
        ("dynamo", ["spec", "components", 1, "type"], "VllmWorker", "one of"),
        ("ray-serve", ["applications", 0, "args", "decode_config", "engine_args"], {},
         "no field engine_args"),
    ],
)  # fmt: skip
def test_the_tables_do_refuse(target: str, path: list[Any], value: Any, message: str) -> None:
    files = render(disaggregated(), target).files
    file = next(iter(TABLES[target]))
    (content,) = documents(files[file])
    found = list(problems(load_rules(TABLES[target][file]), broken(content, path, value)))
    assert len(found) == 1 and message in found[0]


def test_every_table_names_its_source() -> None:
    for path in RULES.glob("*.json"):
        table = json.loads(path.read_text())
        assert table["source"].startswith("github.com/") and table["version"] and table["path"]


def validate(content: dict[str, Any]) -> None:
    kubernetes_validate.validate(content, KUBERNETES, strict=True)


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_kubernetes_objects_keep_to_its_schemas(name: str) -> None:
    for text in render(DEPLOYMENTS[name], "kubernetes").files.values():
        for content in documents(text):
            validate(content)


def test_kubernetes_schemas_do_refuse() -> None:
    content = documents(render(aggregated(), "kubernetes").files["kubernetes.yaml"])[0]
    for path, value in (
        (["spec", "replica"], 2),
        (["spec", "template", "spec", "containers", 0, "args", 0], 5),
    ):
        with pytest.raises(kubernetes_validate.ValidationError):
            validate(broken(content, path, value))


def pod_specs(deployment: Deployment, target: str) -> list[dict[str, Any]]:
    """Every pod specification inside the target's objects or values."""
    files = render(deployment, target).files
    if target == "dynamo":
        (graph,) = documents(files["dynamographdeployment.yaml"])
        return [c["podTemplate"]["spec"] for c in graph["spec"]["components"]]
    if target == "kserve":
        (service,) = documents(files["llminferenceservice.yaml"])
        spec = service["spec"]
        return [w["template"] for w in (spec, spec.get("prefill")) if w]
    (values,) = documents(files["values.yaml"])
    if target == "production-stack":
        models = values["servingEngineSpec"]["modelSpec"]
        return [
            {
                "containers": [
                    {
                        "name": "vllm",
                        "env": m["env"],
                        "resources": m["resources"],
                        "volumeMounts": m.get("extraVolumeMounts", []),
                    }
                ],
                "volumes": m.get("extraVolumes", []),
            }
            for m in models
        ]
    containers = [c for role in ("decode", "prefill") for c in values[role].get("containers", [])]
    kept = ("name", "image", "args", "env", "ports", "resources")
    return [{"containers": [{k: c[k] for k in kept} | c["extraConfig"]]} for c in containers]


@pytest.mark.parametrize("name", DEPLOYMENTS)
@pytest.mark.parametrize("target", ["production-stack", "kserve", "llm-d", "dynamo"])
def test_pods_inside_other_objects_keep_to_kubernetes(target: str, name: str) -> None:
    specs = pod_specs(DEPLOYMENTS[name], target)
    assert specs
    for spec in specs:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
        validate(pod)


@pytest.mark.parametrize("rule", ROUTER_RULES)
def test_the_router_knows_its_options(rule: str) -> None:
    rules = load_rules("vllm_router")
    urls = {"aggregated": ["http://a", "http://b"], "prefill": ["http://p"], "decode": ["http://d"]}
    for deployment in (aggregated(router=Router(rule)), disaggregated(router=Router(rule))):
        words = router_words(deployment, urls)[1:]
        assert list(problems(rules, flags_of(words))) == []
        assert ("--vllm-pd-disaggregation" in words) == deployment.is_pd


@pytest.mark.parametrize("name", FLEETS)
def test_the_router_of_pods_knows_its_options(name: str) -> None:
    objects = documents(render(FLEETS[name], "kubernetes").files["kubernetes.yaml"])
    (router,) = (
        d for d in objects if d["kind"] == "Deployment" and "router" in d["metadata"]["name"]
    )
    words = router["spec"]["template"]["spec"]["containers"][0]["args"]
    assert list(problems(load_rules("vllm_router"), flags_of(words))) == []


@pytest.mark.parametrize("name", FLEETS)
def test_alert_rules_keep_to_prometheus(name: str) -> None:
    slo = {"chat": {"ttft_p99_s": 1.0, "itl_p99_s": 0.05}, "batch": {"ttft_p99_s": 8.0}}
    (content,) = documents(alert_rules(FLEETS[name], slo))
    assert list(problems(load_rules("prometheus"), content)) == []
    rules = content["groups"][0]["rules"]
    names = [rule["alert"] for rule in rules]
    assert len(set(names)) == len(names)
    by_name = {rule["alert"]: rule["expr"] for rule in rules}
    assert by_name["StallfreeTtftWarning"].endswith("> 1")
    assert by_name["StallfreeTtftCritical"].endswith("> 8")
    assert by_name["StallfreeItlCritical"].endswith("> 0.05")
    assert "StallfreeItlWarning" not in by_name and "StallfreeTpotCritical" not in by_name
    assert ("StallfreeKvTransferCritical" in by_name) == FLEETS[name].is_pd
