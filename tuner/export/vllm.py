"""`vllm serve`: per pool a configuration file, the same as a command line, and the environment.

vLLM's reader of `--config` files drops a `false` (it appends `--flag` for true and, in many
versions or when the key is spelled with underscores, nothing for false). So a false setting is
written as `no-flag: true`, which every version reads as the flag `--no-flag`.
"""

from __future__ import annotations

import shlex
from typing import Any

from tuner.export.deployment import PORT, Deployment, EnginePool
from tuner.export.routers import router_words, vllm_router_fates
from tuner.export.settings_report import Rendering, exported, not_expressible, rendering, translated
from tuner.export.words import comment, flag_words, shell_lines, yaml_text

HOST_VARIABLE = "VLLM_NIXL_SIDE_CHANNEL_HOST"
PORT_VARIABLE = "VLLM_NIXL_SIDE_CHANNEL_PORT"
_ROUTER_FILE = "router.sh"


def render(deployment: Deployment) -> Rendering:
    """`vllm.yaml`, `command.sh` and `vllm.env`; of several pools one of each per pool."""
    files: dict[str, str] = {}
    for pool in deployment.pools:
        config, command, environment = _names(deployment, pool)
        files[config] = config_file(deployment, pool)
        files[command] = command_file(deployment, pool)
        if variables := environment_of(pool):
            files[environment] = "".join(f"{k}={v}\n" for k, v in variables.items())
    if deployment.has_choice:
        files[_ROUTER_FILE] = _router_file(deployment)
    notes = [f"Every file needs vLLM {deployment.engine_version}."]
    if deployment.has_choice:
        notes.append("Start each pool's command once per replica, then router.sh (vllm-router).")
        notes.append(
            "Replicas on one machine: give each its own --port and CUDA_VISIBLE_DEVICES"
            + (f", and {PORT_VARIABLE}s as far apart as it has GPUs." if deployment.is_pd else ".")
        )
    return rendering(deployment, files, _fates(deployment), *notes)


def start_commands(deployment: Deployment) -> tuple[str, ...]:
    """Shell commands that start every replica with its environment, and the router."""
    scripts = [(_names(deployment, pool)[1], pool.replicas) for pool in deployment.pools]
    if not deployment.has_choice:
        return (f"sh {scripts[0][0]}",)
    replicas = [f"sh {name} # on each of its {number} replicas" for name, number in scripts]
    return (*replicas, f"sh {_ROUTER_FILE}")


def _names(deployment: Deployment, pool: EnginePool) -> tuple[str, str, str]:
    if len(deployment.pools) == 1:
        return "vllm.yaml", "command.sh", "vllm.env"
    return f"{pool.label}.yaml", f"{pool.label}.sh", f"{pool.label}.env"


def config_file(deployment: Deployment, pool: EnginePool) -> str:
    """Text for `vllm serve --config FILE`."""
    content: dict[str, Any] = {"model": deployment.model}
    for name, value in deployment.arguments(pool).items():
        content |= {f"no-{name}": True} if value is False else {name: value}
    return yaml_text(deployment.evidence, content)


def command_words(deployment: Deployment, pool: EnginePool) -> list[str]:
    """`vllm serve MODEL --flag value ...` as words."""
    return ["vllm", "serve", deployment.model, *flag_words(deployment.arguments(pool))]


def environment_of(pool: EnginePool) -> dict[str, str]:
    """Variables of every replica of `pool`; the side channel's address is each one's own."""
    port = {} if pool.kv_transfer is None else {PORT_VARIABLE: pool.kv_transfer.side_channel_port}
    return pool.environment | {name: str(value) for name, value in port.items()}


def command_file(deployment: Deployment, pool: EnginePool) -> str:
    """A shell script with the full command line; further arguments are appended."""
    exports = [f"export {k}={shlex.quote(v)}" for k, v in pool.environment.items()]
    if pool.kv_transfer is not None:
        port = pool.kv_transfer.side_channel_port
        exports.append(f'export {PORT_VARIABLE}="${{{PORT_VARIABLE}:-{port}}}"')
        why = "address of this machine that the other replicas reach, not a name"
        exports.append(f'export {HOST_VARIABLE}="${{{HOST_VARIABLE}:?{why}}}"')
    return _script(deployment, exports, shell_lines(command_words(deployment, pool), 3))


def _router_file(deployment: Deployment) -> str:
    """A shell script that asks for the replicas' addresses."""
    variables = {
        pool.label: [
            f"{pool.label.upper().replace('-', '_')}_{i}_URL" for i in range(pool.replicas)
        ]
        for pool in deployment.pools
    }
    asked = [
        f': "${{{name}:?URL of a replica of {label}, such as http://10.0.0.1:{PORT}}}"'
        for label, names in variables.items()
        for name in names
    ]
    urls = {label: [f"${name}" for name in names] for label, names in variables.items()}
    lines = shell_lines(router_words(deployment, urls), 1, [u for of in urls.values() for u in of])
    return _script(deployment, asked, lines)


def _script(deployment: Deployment, before: list[str], lines: list[str]) -> str:
    """A shell script that runs `before`, then becomes the command of `lines`."""
    first, *rest = lines
    command = " \\\n    ".join(["exec " + first, *rest, '"$@"'])
    top = comment(deployment.evidence) + "set -eu"
    return "\n".join(["#!/bin/sh", top, *before, command]) + "\n"


def _fates(deployment: Deployment) -> dict[str, Any]:
    by_hand = translated("start the command once per replica")
    return {
        "deployment.name": not_expressible("a command line has no name"),
        "deployment.namespace": not_expressible("a command line is in no namespace"),
        "deployment.model": exported("model"),
        "deployment.engine_version": translated("the vLLM that is installed; check vllm --version"),
        "deployment.image": translated("whatever installs this vLLM"),
        **vllm_router_fates(deployment),
        "pool.role": translated("one command per pool"),
        "pool.replicas": by_hand if deployment.has_choice else exported("one command"),
        "pool.num_gpus": translated("by the parallel sizes; choose with CUDA_VISIBLE_DEVICES"),
        "flag": exported("flag of vllm serve"),
        "environment": exported("export"),
        "kv": exported("--kv-transfer-config"),
        "kv.side_channel_port": exported(PORT_VARIABLE),
        "kv.side_channel_host": translated(f"{HOST_VARIABLE} is asked for at the start"),
    }
