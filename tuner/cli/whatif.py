"""The cases that `stallfree simulate` can be asked for, and how their figures look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from profiler.collect import Profile
from profiler.engine_config import EngineConfig, parse_value
from profiler.errors import KnobError, ResultsError
from profiler.latency.base import StepTimeModel
from profiler.traffic.trace import Trace
from tuner.metrics import compute
from tuner.results import RunFolder
from tuner.search.objective import Problem, blocks_by_budget, not_sampled
from tuner.search.space import resolve
from tuner.search.tune import build_problem
from tuner.slo import Limits, Slo
from tuner.study import load_study

SERVER_DEFAULTS = EngineConfig(
    max_num_batched_tokens=8192,
    max_num_seqs=1024,
    max_model_len=131072,
    block_size=16,
    enable_chunked_prefill=True,
    enable_prefix_caching=False,
    scheduling_policy="fcfs",
    long_prefill_token_threshold=0,
    scheduler_reserve_full_isl=True,
    async_scheduling=True,
)
"""what a latency model without an engine's facts is simulated with: vLLM 0.32's server defaults
on one H200 (see the knob table)"""
SERVER_KV_BLOCKS = 55_170
"""KV pool of an 8B model on one H200 at those defaults: 882,732 tokens in blocks of 16"""


@dataclass(frozen=True)
class Case:
    """One configuration on one trace."""

    problem: Problem
    config: EngineConfig


def parse_settings(texts: Sequence[str]) -> EngineConfig:
    """`NAME=VALUE` texts as settings. Raises `KnobError`."""
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise KnobError(f"--set needs NAME=VALUE, got {text!r}")
        settings[name.strip()] = parse_value(name.strip(), value)
    return EngineConfig.from_settings(settings)


def from_run(target: Path, folder: RunFolder, chosen: EngineConfig) -> Case:
    """The study's traffic and profile, its fixed settings changed by `chosen`.

    Raises `ResultsError` when the run has no profile yet.
    """
    study_file = target if target.is_file() else folder.study_file
    study = load_study(study_file)
    place = Path(study.profile.path) if study.profile.path is not None else folder.profile
    if not (place.exists() and folder.trace.exists()):
        raise ResultsError(
            f"{folder.path} holds no profile and traffic yet; run `stallfree tune {target}` first"
        )
    problem = build_problem(study, Trace.load(folder.trace), Profile.load(place))
    return Case(problem, chosen.over(study.fixed))


def from_trace(
    traffic: Trace, model: StepTimeModel, chosen: EngineConfig, num_kv_blocks: int | None
) -> Case:
    """Recorded traffic and a latency model; no SLOs, so that every finished request is good."""
    resolved = EngineConfig.from_settings(model.facts.get("resolved", SERVER_DEFAULTS.settings()))
    blocks = num_kv_blocks or int(model.facts.get("num_kv_blocks", SERVER_KV_BLOCKS))
    slo = Slo(traffic.class_names, (Limits(),) * len(traffic.class_names))
    table = () if num_kv_blocks else blocks_by_budget(model.facts)
    problem = Problem(traffic, model, slo, EngineConfig(), resolved, blocks, {}, table)
    return Case(problem, chosen)


def figures(case: Case, seed: int) -> dict[str, Any]:
    """Metrics of the simulated run, with `requests`, `steps`, `preemptions`, `simulation_s`."""
    simulation = case.problem.simulate(case.config, seed=seed)
    metrics = compute(simulation.outcomes, case.problem.slo)
    full = resolve(case.config, case.problem.resolved)
    return {
        "settings": case.config.settings(),
        **metrics.to_dict(),
        "requests": metrics.num_requests,
        "steps": simulation.num_steps,
        "preemptions": simulation.num_preemptions,
        "simulation_s": simulation.simulation_s,
        "not_sampled": not_sampled(case.problem.model, full, case.problem.trace),
    }


def print_figures(found: dict[str, Any], console: Console) -> None:
    """The figures as a table, times in milliseconds where they are short."""
    table = Table("figure", "value", title=f"simulated with {found['settings'] or 'defaults'}")
    for name, value in found.items():
        if name not in ("settings", "violations", "classes", "not_sampled"):
            table.add_row(name, _text(value))
    for name, violation in found["violations"].items():
        if not name.endswith(".unserved"):
            table.add_row(f"{name} against its limit", f"{100 * violation:+.0f} %")
    console.print(table)
    if found["num_rejected"]:
        console.print(
            f"{found['num_rejected']} of {found['requests']} requests were rejected: longer than "
            "max_model_len or than the KV pool",
            highlight=False,
        )
    for sentence in found["not_sampled"]:
        console.print(f"Not sampled by the latency model: {sentence}", highlight=False)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else str(value)
