"""Reads exported files back as a target would: per pool its replicas, GPUs, command and variables.

Slow and obvious, and written without the renders' own helpers.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml


@dataclass
class Found:
    """What the files say of one pool."""

    model: str
    words: list[str]
    """server flags as words"""
    replicas: int = 1
    num_gpus: int | None = None
    variables: dict[str, str] = field(default_factory=dict)


Files = dict[str, str]


def documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


def from_vllm(files: Files) -> dict[str, Found]:
    found = {}
    for name, text in files.items():
        if not name.endswith(".sh") or name == "router.sh":
            continue
        before, command = text.split("exec ", 1)
        words = shlex.split(command.replace("\\\n", " "))
        assert words[:2] == ["vllm", "serve"] and words[-1] == "$@"
        lines = [line.removeprefix("export ") for line in before.splitlines() if "export" in line]
        variables = dict(shlex.split(line)[0].split("=", 1) for line in lines)
        # ${NAME:-5600} is 5600 where nobody says otherwise
        variables = {k: re.sub(r"^\$\{\w+:-(\d+)\}$", r"\1", v) for k, v in variables.items()}
        label = {"command.sh": "aggregated"}.get(name, name.removesuffix(".sh"))
        found[label] = Found(words[2], words[3:-1], variables=variables)
    return found


def from_compose(files: Files) -> dict[str, Found]:
    (content,) = documents(files["compose.yaml"])
    found: dict[str, Found] = {}
    for name, service in content["services"].items():
        if name == "router":
            continue
        label = name.rsplit("-", 1)[0]
        words = [word.replace("$$", "$") for word in service["command"]]
        assert service["entrypoint"] + words[:1] == ["vllm", "serve"]
        assert words[-4:] == ["--host", "0.0.0.0", "--port", "8000"]
        devices = service["deploy"]["resources"]["reservations"]["devices"]
        gpus = sum(len(device["device_ids"]) for device in devices)
        variables = {k: v.replace("$$", "$") for k, v in service["environment"].items()}
        variables.pop("HF_TOKEN")
        new = Found(words[1], words[2:-4], 1, gpus, variables)
        if label in found:
            assert found[label].words == new.words
            new.replicas = found[label].replicas + 1
        found[label] = new
    return found


def pod_variables(container: dict[str, Any]) -> dict[str, str]:
    """Variables of a container; the pod's own address by its field path."""
    named = {}
    for entry in container["env"]:
        if entry["name"] == "HF_TOKEN":
            continue
        field_path = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        named[entry["name"]] = field_path or entry["value"].replace("$$(", "$(")
    return named


def unescaped(words: list[str]) -> list[str]:
    return [word.replace("$$(", "$(") for word in words]


def gpus_of(container: dict[str, Any]) -> int:
    return int(container["resources"]["limits"]["nvidia.com/gpu"])


def from_kubernetes(files: Files) -> dict[str, Found]:
    found = {}
    for document in documents(files["kubernetes.yaml"]):
        if document["kind"] != "Deployment":
            continue
        label = document["spec"]["template"]["metadata"]["labels"]["stallfree/role"]
        (container,) = document["spec"]["template"]["spec"]["containers"]
        if label == "router":
            continue
        words = unescaped(container["args"])
        assert container["command"] == ["vllm", "serve"]
        found[label] = Found(
            words[0],
            words[1:-4],
            document["spec"]["replicas"],
            gpus_of(container),
            pod_variables(container),
        )
    return found


_STACK = {
    "maxModelLen": "--max-model-len",
    "maxNumSeqs": "--max-num-seqs",
    "dtype": "--dtype",
    "gpuMemoryUtilization": "--gpu-memory-utilization",
    "tensorParallelSize": "--tensor-parallel-size",
}


def from_production_stack(files: Files) -> dict[str, Found]:
    """As the chart's template `deployment-vllm-multi.yaml` puts the command together."""
    (values,) = documents(files["values.yaml"])
    found = {}
    for model in values["servingEngineSpec"]["modelSpec"]:
        config = model["vllmConfig"]
        words = []
        for key, flag in _STACK.items():
            words += [flag, str(config[key])] if key in config else []
        for key, flag in (
            ("enableChunkedPrefill", "enable-chunked-prefill"),
            ("enablePrefixCaching", "enable-prefix-caching"),
        ):
            if key in config:
                words.append(f"--{flag}" if config[key] else f"--no-{flag}")
        words += unescaped(config["extraArgs"])
        found[model["name"]] = Found(
            model["modelURL"], words, model["replicaCount"], gpus_of(model), pod_variables(model)
        )
    return found


def from_kserve(files: Files) -> dict[str, Found]:
    """As the start command of KServe's templates does: the shell reads VLLM_ADDITIONAL_ARGS."""
    (service,) = documents(files["llminferenceservice.yaml"])
    spec = service["spec"]
    pools = {"decode": spec, "prefill": spec["prefill"]} if "prefill" in spec else {}
    found = {}
    for label, workload in (pools or {"aggregated": spec}).items():
        (container,) = workload["template"]["containers"]
        variables = pod_variables(container)
        words = shlex.split(variables.pop("VLLM_ADDITIONAL_ARGS"))
        words += ["--tensor-parallel-size", str(workload["parallelism"]["tensor"])]
        model = spec["model"]["uri"].removeprefix("hf://")
        found[label] = Found(model, words, workload["replicas"], gpus_of(container), variables)
    return found


def from_inference_service(files: Files) -> dict[str, Found]:
    (service,) = documents(files["inferenceservice.yaml"])
    predictor = service["spec"]["predictor"]
    model = predictor["model"]
    assert predictor["minReplicas"] == predictor["maxReplicas"]
    return {
        "aggregated": Found(
            model["storageUri"].removeprefix("hf://"),
            unescaped(model["args"]),
            predictor["minReplicas"],
            gpus_of(model),
            pod_variables(model),
        )
    }


def from_llm_d(files: Files) -> dict[str, Found]:
    (values,) = documents(files["values.yaml"])
    found = {}
    for label in ("decode", "prefill"):
        pods = values[label]
        if not pods["create"]:
            continue
        (container,) = pods["containers"]
        words = unescaped(container["args"])
        words += ["--tensor-parallel-size", str(pods["parallelism"]["tensor"])]
        variables = pod_variables(container)
        variables = {k: v.replace('{{ "{{" }}', "{{") for k, v in variables.items()}
        model = values["modelArtifacts"]["uri"].removeprefix("hf://")
        name = label if values["prefill"]["create"] else "aggregated"
        found[name] = Found(model, words, pods["replicas"], gpus_of(container), variables)
    return found


def from_dynamo(files: Files) -> dict[str, Found]:
    (graph,) = documents(files["dynamographdeployment.yaml"])
    found = {}
    for component in graph["spec"]["components"]:
        if component["type"] == "frontend":
            continue
        (container,) = component["podTemplate"]["spec"]["containers"]
        words = unescaped(container["args"])
        assert words[0] == "--model"
        rest = words[2:]
        if component["type"] != "worker":
            assert rest[:2] == ["--disaggregation-mode", component["type"]]
            rest = rest[2:]
        found[component["name"]] = Found(
            words[1], rest, component["replicas"], gpus_of(container), pod_variables(container)
        )
    return found


def from_ray_serve(files: Files) -> dict[str, Found]:
    """Keyword arguments as the words that would say the same."""
    (content,) = documents(files["serve.yaml"])
    (application,) = content["applications"]
    arguments = application["args"]
    if "llm_configs" in arguments:
        configs = {"aggregated": arguments["llm_configs"][0]}
    else:
        configs = {k: arguments[f"{k}_config"] for k in ("prefill", "decode")}
    found = {}
    for label, config in configs.items():
        words: list[str] = []
        for name, value in config["engine_kwargs"].items():
            words += _as_words(name.replace("_", "-"), value)
        variables = dict(config.get("runtime_env", {}).get("env_vars", {}))
        found[label] = Found(
            config["model_loading_config"]["model_source"],
            words,
            config["deployment_config"]["num_replicas"],
            None,
            variables,
        )
    return found


def _as_words(flag: str, value: Any) -> list[str]:
    if value is True or value is False:
        return [f"--{'' if value else 'no-'}{flag}"]
    if isinstance(value, list):
        return [f"--{flag}", *(str(item) for item in value)]
    return [f"--{flag}", json.dumps(value) if isinstance(value, dict) else str(value)]


EXTRACT: dict[str, Callable[[Files], dict[str, Found]]] = {
    "vllm": from_vllm,
    "compose": from_compose,
    "kubernetes": from_kubernetes,
    "production-stack": from_production_stack,
    "kserve": from_kserve,
    "llm-d": from_llm_d,
    "dynamo": from_dynamo,
    "ray-serve": from_ray_serve,
}


def flags_of(words: list[str]) -> dict[str, list[str]]:
    """Flag with its dashes -> its words."""
    flags: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name = word
            flags[name] = []
        else:
            flags[name].append(word)
    return flags
