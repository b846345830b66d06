"""`vllm serve`: a configuration file, the same as a command line, and the evidence.

vLLM's reader of `--config` files drops a `false` (it appends `--flag` for true and, in many
versions or when the key is spelled with underscores, nothing for false). So a false setting is
written as `no-flag: true`, which every version reads as the flag `--no-flag`.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

import yaml

from profiler.engine_config import EngineConfig
from tuner.candidate import Evidence
from tuner.export.fleet import exported_pool
from tuner.results import Results

_SERVER_ARGUMENTS = ("load_format", "dtype")


def render(results: Results) -> dict[str, str]:
    """File name -> text of the bundle for the recommended configuration. Writes nothing."""
    flags = server_flags(results)
    return {
        "vllm.yaml": config_file(results, flags),
        "command.sh": command_file(results, flags),
        "settings.json": _json(_settings(results)),
        "evidence.json": _json(_evidence(results)),
    }


def server_flags(results: Results) -> dict[str, Any]:
    """Flag name without dashes in front -> value, in a fixed order; the model is not one."""
    engine = results.engine
    named = {k: engine[k] for k in _SERVER_ARGUMENTS if engine.get(k, "auto") != "auto"}
    named |= engine.get("args", {})
    pool, settings = exported_pool(results), results.recommended.settings
    if pool is not None:
        named["tensor_parallel_size"] = pool.tp if pool.tp > 1 else None
        settings = pool.settings
    flags = {name.replace("_", "-"): value for name, value in named.items()}
    chosen = EngineConfig.from_settings(settings).arguments()
    flags |= {name.replace("_", "-"): value for name, value in chosen.items()}
    return {name: value for name, value in flags.items() if value is not None}


def config_file(results: Results, flags: dict[str, Any]) -> str:
    """Text for `vllm serve --config FILE`."""
    content: dict[str, Any] = {"model": results.engine["model"]}
    for name, value in flags.items():
        content |= {f"no-{name}": True} if value is False else {name: value}
    return _comment(results) + yaml.safe_dump(content, sort_keys=False)


def command_words(results: Results, flags: dict[str, Any]) -> list[str]:
    """`vllm serve MODEL --flag value ...` as words."""
    words = ["vllm", "serve", str(results.engine["model"])]
    for name, value in flags.items():
        words += _flag_words(name, value)
    return words


def _flag_words(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, list):
        return [f"--{name}", *(str(item) for item in value)]
    return [f"--{name}", json.dumps(value) if isinstance(value, dict) else str(value)]


def command_file(results: Results, flags: dict[str, Any]) -> str:
    """A shell script with the full command line."""
    variables = results.engine.get("environment", {})
    exports = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    first, *rest = _lines(command_words(results, flags))
    command = " \\\n    ".join(["exec " + first, *rest, '"$@"'])
    return "\n".join(["#!/bin/sh", _comment(results) + "set -eu", *exports, command]) + "\n"


def _lines(words: list[str]) -> list[str]:
    """One line per flag with its values, quoted for the shell."""
    lines = [shlex.join(words[:3])]
    for word in words[3:]:
        if word.startswith("--"):
            lines.append(shlex.quote(word))
        else:
            lines[-1] += " " + shlex.quote(word)
    return lines


def _comment(results: Results) -> str:
    met = f"meets its SLOs, {results.evidence}" if results.meets_slo else "DOES NOT MEET its SLOs"
    if results.evidence is Evidence.PREDICTED:
        met = f"WAS NOT MEASURED; it would {'' if results.meets_slo else 'not '}meet its SLOs"
    digest = str(results.provenance.get("trace_digest", ""))[:12]
    return (
        f"# Stallfree, study {results.study}: the {results.recommended.label} configuration "
        f"{met}.\n# Figures: {results.evidence.note}.\n"
        f"# Traffic {digest}; see evidence.json beside this file.\n{_replicas_line(results)}"
    )


def _replicas_line(results: Results) -> str:
    """Of a fleet: how many engines with these settings there are, and what is in front."""
    pool, plan = exported_pool(results), results.recommended.plan
    if pool is None or plan is None:
        return ""
    return (
        f"# One of {pool.replicas} such replicas of {pool.tp} GPUs, behind a router: "
        f"{plan.router}.\n"
    )


def _settings(results: Results) -> dict[str, Any]:
    return {
        "study": results.study,
        "verdict": results.verdict,
        "meets_slo": results.meets_slo,
        "settings": results.recommended.settings,
        "resolved": results.recommended.resolved,
        "engine": results.engine,
        "provenance": results.provenance,
    }


def _evidence(results: Results) -> dict[str, Any]:
    chosen, default = results.recommended, results.default
    confirmed: dict[str, Any] = {}
    beside: dict[str, Any] = {}
    if results.evidence is not Evidence.PREDICTED:
        confirmed = {results.evidence.value: chosen.measured, "corrected": chosen.corrected}
        confirmed["replays"] = chosen.replays
        beside = {results.evidence.value: default.measured}
    return {
        "traffic_digest": results.provenance.get("trace_digest"),
        "traffic_source": results.provenance.get("trace_source"),
        "engine": results.provenance.get("engine"),
        "slo": results.slo,
        "misses": results.misses,
        "predicted": chosen.predicted,
        "evidence": results.evidence.note,
        **confirmed,
        "default": {"settings": default.settings, "predicted": default.predicted, **beside},
    }


def _json(plain: dict[str, Any]) -> str:
    return json.dumps(plain, indent=2, allow_nan=False, default=str) + "\n"
