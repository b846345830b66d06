"""Ray Serve LLM: a Serve configuration with `LLMConfig`, built by `build_openai_app`, or by
`build_pd_openai_app` for prefill and decode.

Rules: github.com/ray-project/ray, `python/ray/llm/_internal/serve`: `LLMConfig`, `LLMServingArgs`,
`PDServingArgs`, `NixlConnectorBackend`; `engine_kwargs` are vLLM's `AsyncEngineArgs`.
"""

from __future__ import annotations

from typing import Any

from tuner.export.deployment import Deployment, EnginePool, Role, single_pool
from tuner.export.routers import ONE_REPLICA, Choice, Choices, choice, rule_fates
from tuner.export.settings_report import (
    Fates,
    Rendering,
    exported,
    not_expressible,
    rendering,
    translated,
)
from tuner.export.words import yaml_text
from tuner.simulator.router import (
    LEAST_REQUESTS,
    LEAST_TOKENS,
    POWER_OF_TWO,
    PREFIX_AWARE,
    PRIORITY,
    PROMPT_LENGTH,
    ROUND_ROBIN,
)

_PORT_BASE = "NIXL_SIDE_CHANNEL_PORT_BASE"
_CLASS = "request_router_config.request_router_class"
_PREFIX_CLASS = "ray.serve.llm.request_router.PrefixCacheAffinityRouter"
_TURN_CLASS = "ray.serve.experimental.round_robin_router.RoundRobinRouter"
_NEAREST = "Ray Serve's own, power of two choices, is used"
_RULES: Choices = {
    ROUND_ROBIN: Choice(_TURN_CLASS, exported(_CLASS)),
    POWER_OF_TWO: Choice("", translated("Ray Serve's own, by queue lengths of two replicas")),
    PREFIX_AWARE: Choice(_PREFIX_CLASS, translated(f"{_CLASS}: PrefixCacheAffinityRouter")),
    LEAST_REQUESTS: Choice("", not_expressible(f"no router class for it; {_NEAREST}")),
    LEAST_TOKENS: Choice("", not_expressible(f"no router class for it; {_NEAREST}")),
    PROMPT_LENGTH: Choice("", not_expressible(f"no router class for it; {_NEAREST}")),
    PRIORITY: Choice("", not_expressible(f"no router class for it; {_NEAREST}")),
}


def render(deployment: Deployment) -> Rendering:
    """`serve.yaml`."""
    router = deployment.router
    arguments: dict[str, Any]
    if deployment.is_pd:
        builder = "build_pd_openai_app"
        arguments = {
            "prefill_config": _llm(deployment, deployment.pool_with(Role.PREFILL), router.rule),
            "decode_config": _llm(
                deployment, deployment.pool_with(Role.DECODE), router.decode_rule
            ),
        }
    else:
        builder = "build_openai_app"
        pool = single_pool(deployment, "ray-serve")
        arguments = {"llm_configs": [_llm(deployment, pool, router.rule)]}
    application = {
        "name": deployment.name,
        "route_prefix": "/",
        "import_path": f"ray.serve.llm:{builder}",
        "args": arguments,
    }
    text = yaml_text(deployment.evidence, {"applications": [application]})
    notes = [
        f"The cluster's image must have vLLM {deployment.engine_version}"
        + (" and NIXL." if deployment.is_pd else "."),
        "Clusters with several kinds of GPUs: add accelerator_type.",
    ]
    if deployment.model_is_folder:
        notes.append("Every node must hold the model's folder at its path.")
    return rendering(deployment, {"serve.yaml": text}, _fates(deployment), *notes)


def _llm(deployment: Deployment, pool: EnginePool, rule: str) -> dict[str, Any]:
    kwargs = {f.replace("-", "_"): v for f, v in deployment.arguments(pool).items()}
    config: dict[str, Any] = {
        "model_loading_config": {
            "model_id": deployment.model,
            "model_source": deployment.model,
        },
        "engine_kwargs": kwargs,
        "deployment_config": {"num_replicas": pool.replicas, **_router(deployment, pool, rule)},
    }
    if pool.environment:
        config["runtime_env"] = {"env_vars": dict(pool.environment)}
    if pool.kv_transfer is not None:
        config["experimental_configs"] = {_PORT_BASE: pool.kv_transfer.side_channel_port}
    if kwargs.get("disable_log_stats"):
        config["log_engine_metrics"] = False  # LLMConfig refuses the two together
    return config


def _router(deployment: Deployment, pool: EnginePool, rule: str) -> dict[str, Any]:
    name = choice(_RULES, rule, pool.replicas).name
    if not name or pool.replicas == 1:
        return {}
    config: dict[str, Any] = {"request_router_class": name}
    if name == _PREFIX_CLASS:
        guard = deployment.router.guard_requests
        config["request_router_kwargs"] = {"imbalanced_threshold": guard}
    return {"request_router_config": config}


def _guard_fates(deployment: Deployment) -> Fates:
    first = deployment.pools[0] if not deployment.is_pd else deployment.pool_with(Role.PREFILL)
    if choice(_RULES, deployment.router.rule, first.replicas).name != _PREFIX_CLASS:
        return {}
    return {"router.guard_requests": exported("request_router_kwargs.imbalanced_threshold")}


def _fates(deployment: Deployment) -> Fates:
    return {
        "deployment.name": exported("name"),
        "deployment.namespace": not_expressible("a Serve configuration is in no namespace"),
        "deployment.model": exported("model_loading_config"),
        "deployment.engine_version": not_expressible("the vLLM is that of the cluster's image"),
        "deployment.image": not_expressible("the image is the cluster's"),
        "router": not_expressible("no router class has it")
        if deployment.has_choice
        else ONE_REPLICA,
        **_guard_fates(deployment),
        **rule_fates(deployment, _RULES),
        "pool.role": translated("prefill_config, decode_config or llm_configs"),
        "pool.replicas": exported("deployment_config.num_replicas"),
        "pool.num_gpus": translated("Ray places tensor_parallel_size GPUs")
        if deployment.has_gpus
        else not_expressible("Ray Serve LLM asks for GPUs"),
        "flag": exported("engine_kwargs"),
        "environment": exported("runtime_env.env_vars"),
        "kv": exported("engine_kwargs.kv_transfer_config"),
        "kv.side_channel_port": translated(f"experimental_configs.{_PORT_BASE}"),
        "kv.side_channel_host": translated("Ray sets it on each node"),
    }
