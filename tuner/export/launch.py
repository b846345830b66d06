"""Starts the exported command on this machine, and writes down what became of it.

vLLM's own parser reads the exported command; the engine is started with what it read, its resolved
settings are compared with the run's, and a part of the run's traffic is replayed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from profiler.engine_config import EngineConfig
from profiler.engines import start_engine
from profiler.engines.base import Engine, EngineFacts, EngineSpec, Progress
from profiler.engines.vllm.command_line import parsed_command
from profiler.errors import EvidenceError, ExportError
from profiler.knobs import KNOBS
from profiler.replay import Replay, replay
from profiler.traffic.trace import Trace
from tuner.export.deployment import Deployment
from tuner.export.from_results import Pick
from tuner.export.settings_report import shown
from tuner.export.vllm import command_words
from tuner.metrics import compute
from tuner.slo import Slo

_OF_THE_MACHINE = ("num_gpu_blocks_override",)
"""resolved settings that say how much memory a machine has, unless they are exported"""
_HEADLINES = ("ttft_p50_s", "ttft_p99_s", "itl_p50_s", "itl_p99_s", "goodput_rps")


@dataclass(frozen=True)
class LaunchPlan:
    """What to launch and replay: one replica. Raises `ExportError` when there are several pools."""

    deployment: Deployment
    pick: Pick
    trace: Trace
    """exactly the requests to replay"""
    slo: Slo
    start_timeout_s: float = 600.0

    def __post_init__(self) -> None:
        if (number := len(self.deployment.pools)) > 1:
            raise ExportError(
                f"--launch starts one engine on this machine, got {number} pools; launch a "
                "configuration of one, or export without --launch"
            )

    @property
    def resolved(self) -> dict[str, Any]:
        """Every setting as the run knows it, where it does."""
        candidate = self.pick.candidate
        if candidate.plan is None:
            return candidate.resolved
        of_pool: dict[str, Any] = candidate.resolved.get(candidate.plan.pools[0].role, {})
        return of_pool

    @property
    def settings(self) -> dict[str, Any]:
        """Those that are exported."""
        plan = self.pick.candidate.plan
        return self.pick.candidate.settings if plan is None else plan.pools[0].settings


@dataclass(frozen=True)
class Comparison:
    """One setting: what was exported, what the run says is in force, what the engine says."""

    setting: str
    exported: Any
    """None for one that is left to the engine"""
    expected: Any
    found: Any

    @property
    def same(self) -> bool:
        """Whether the engine does what was exported, or else what the run says, if it does."""
        if self.exported is not None:
            return bool(self.found == self.exported)
        free = self.setting in _OF_THE_MACHINE or self.expected is None
        return free or bool(self.found == self.expected)


def launch(
    plan: LaunchPlan,
    *,
    start: Callable[[EngineSpec], Engine] = start_engine,
    parse: Callable[[list[str]], dict[str, Any]] = parsed_command,
    progress: Progress | None = None,
) -> dict[str, str]:
    """`launch.json` and `LAUNCH.md` of a launch on this machine; the engine is stopped after it.

    Raises
    ------
    MissingExtraError, EngineStartError, EngineDiedError, EngineHungError
        vLLM is not installed, refuses the command, or did not see the replay through.
    """
    spec = engine_spec(plan, parse)
    with start(spec) as engine:
        compared = compare(plan, engine.facts)
        seen = replay(engine, plan.trace, itl_limit_s=plan.slo.itl_limit_s, progress=progress)
        facts = engine.facts
    result = _result(plan, facts, compared, seen)
    text = json.dumps(result, indent=2, allow_nan=False, default=str) + "\n"
    return {"launch.json": text, "LAUNCH.md": _page(result)}


def engine_spec(
    plan: LaunchPlan, parse: Callable[[list[str]], dict[str, Any]] = parsed_command
) -> EngineSpec:
    """The engine that the exported command describes, as vLLM's parser reads it."""
    deployment = plan.deployment
    (pool,) = deployment.pools
    flags = {f.replace("-", "_"): v for f, v in deployment.arguments(pool).items()}
    read = parse(command_words(deployment, pool)[2:])
    arguments = {name: flags.get(name) if v is None else v for name, v in read.items()}
    # what is exported at its default value is not in `read`; give it all the same
    arguments = {name: arguments.get(name, value) for name, value in (flags | arguments).items()}
    names = {knob.flag.removeprefix("--").replace("-", "_"): knob.name for knob in KNOBS.values()}
    config = {names[n]: v for n, v in arguments.items() if n in names}
    rest = {n: v for n, v in arguments.items() if n not in names}
    return EngineSpec(
        engine="vllm",
        model=str(rest.pop("model", deployment.model)),
        config=EngineConfig.from_settings(config),
        load_format=str(rest.pop("load_format", "auto")),
        dtype=str(rest.pop("dtype", "auto")),
        engine_args=rest,
        environment=dict(pool.environment),
        start_timeout_s=plan.start_timeout_s,
    )


def compare(plan: LaunchPlan, facts: EngineFacts) -> list[Comparison]:
    """Every setting of the knob table, as exported, as the run knows it and as the engine says."""
    exported, expected = plan.settings, plan.resolved
    found = facts.resolved.settings()
    return [
        Comparison(name, exported.get(name), expected.get(name), found.get(name))
        for name in KNOBS
        if any(name in d for d in (exported, expected, found))
    ]


def _result(
    plan: LaunchPlan, facts: EngineFacts, compared: list[Comparison], seen: Replay
) -> dict[str, Any]:
    (pool,) = plan.deployment.pools
    try:
        seen.require_evidence()
        why = None
    except EvidenceError as error:
        why = str(error)
    return {
        "command": command_words(plan.deployment, pool),
        "engine": {
            "name": facts.engine,
            "version": facts.version,
            "device": facts.device,
            "num_kv_blocks": facts.num_kv_blocks,
            "host": facts.host,
        },
        "settings": [asdict(c) | {"same": c.same} for c in compared],
        "all_settings_as_exported": all(c.same for c in compared if c.exported is not None),
        "replay": {
            "requests": plan.trace.num_requests,
            "seconds": plan.trace.duration_s,
            "fidelity": asdict(seen.fidelity),
            "no_evidence": why,
            "figures": compute(seen.outcomes, plan.slo).to_dict(),
        },
        "replicas": plan.deployment.num_replicas,
        "run": plan.pick.figures,
    }


def _page(result: dict[str, Any]) -> str:
    engine, seen = result["engine"], result["replay"]
    unlike = [s for s in result["settings"] if not s["same"]]
    verdict = "as exported" if result["all_settings_as_exported"] else "NOT all as exported"
    lines = [
        "# Launch on this machine",
        "",
        f"vLLM {engine['version']} on {engine['device']}: {len(result['settings'])} settings read "
        f"back, {verdict}.",
        "",
        *(
            f"- {s['setting']}: exported {shown(s['exported'])}, in the run {shown(s['expected'])}"
            f", here {shown(s['found'])}"
            for s in unlike
        ),
        *([""] if unlike else []),
        f"Replayed {seen['requests']} requests over {seen['seconds']:.0f} s.",
        *([f"It proves nothing of speed: {seen['no_evidence']}."] if seen["no_evidence"] else []),
        "",
        "| figure | here | in the run |",
        "|---|---|---|",
        *(
            f"| {name} | {_number(seen['figures'], name)} | {_number(result['run'], name)} |"
            for name in _HEADLINES
        ),
        "",
        "The run's figures are of its own engine and of more traffic.",
        *(
            [
                f"Here is one of {result['replicas']} replicas, with every {result['replicas']}th "
                "request; there are all."
            ]
            if result["replicas"] > 1
            else []
        ),
    ]
    return "\n".join(lines) + "\n"


def _number(figures: dict[str, Any] | None, name: str) -> str:
    value = (figures or {}).get(name)
    return "-" if value is None else f"{value:.4g}"
