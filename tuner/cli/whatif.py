"""The cases that `stallfree simulate` can be asked for, and how their figures look."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from profiler.engine_config import EngineConfig, parse_value
from profiler.errors import KnobError, StudyError
from profiler.latency.base import StepTimeModel, load_latency_model
from profiler.traffic.trace import Trace
from profiler.versions import EngineUse, require_checked
from tuner.cli.console import find_run, print_json, stdout
from tuner.intervals import odds
from tuner.results import RunFolder
from tuner.search.objective import Problem, blocks_by_budget, not_sampled
from tuner.search.settings import resolve
from tuner.simulator import Simulation
from tuner.slo import Limits, Slo

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
class Source:
    """Where traffic, latency model and SLOs come from, as given on the command line."""

    study: Path | None
    trace: Path | None
    latency_model: str | None
    columns: str | None
    num_kv_blocks: int | None
    slo: str | None


@dataclass(frozen=True)
class Case:
    """One configuration on one trace."""

    problem: Problem
    config: EngineConfig
    seed: int
    facts: Mapping[str, Any] = field(default_factory=dict)
    """of the latency model: the engine and its version, where it was measured on one"""
    accepted: bool = False
    """whether the study accepts an unchecked engine"""
    recommended: EngineConfig | None = None
    """what the study's run recommends, where it has finished"""

    def unchecked_note(self, *, accept: bool) -> str | None:
        """What to say of an engine version that the rules were not checked for, else None.

        Raises `EngineVersionError` when neither the study nor `accept` lets it pass.
        """
        facts, full = self.facts, resolve(self.config, self.problem.resolved)
        use = EngineUse(facts.get("engine", ""), facts.get("version", ""), full.settings())
        return require_checked(use, accept=accept or self.accepted)

    def over_windows(self, windows: int | None) -> Case:
        """The same scored over that many arrival windows; None leaves it as it is."""
        if windows is None:
            return self
        return replace(self, problem=replace(self.problem, windows=windows))

    def with_acceptance(self, text: str | None) -> Case:
        """The same with the acceptance of `--acceptance`: a rate, or chances with commas between.

        Raises `KnobError` unless they are numbers.
        """
        if text is None:
            return self
        try:
            numbers = tuple(float(word) for word in text.split(","))
        except ValueError:
            raise KnobError(
                "--acceptance needs a rate such as 0.7, or chances such as 0.3,0.3,0.4; "
                f"got {text!r}"
            ) from None
        given = numbers if len(numbers) > 1 else numbers[0]
        return replace(self, problem=replace(self.problem, acceptance=given))

    @property
    def speculates(self) -> bool:
        """Whether the configuration drafts tokens."""
        return bool(resolve(self.config, self.problem.resolved).num_speculative_tokens)

    def simulate(
        self, *, record: bool | tuple[float, float] = False, timeline: bool = False
    ) -> Simulation:
        """Run it."""
        return self.problem.simulate(self.config, seed=self.seed, record=record, timeline=timeline)


def parse_settings(texts: Sequence[str], option: str = "--set") -> EngineConfig:
    """`NAME=VALUE` texts as settings. Raises `KnobError`."""
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise KnobError(f"{option} needs NAME=VALUE, got {text!r}")
        settings[name.strip()] = parse_value(name.strip(), value)
    return EngineConfig.from_settings(settings)


def parse_slo(text: str) -> Limits:
    """`ttft_p99=2,itl_p99=0.05` as limits, seconds. Raises `StudyError`."""
    known = {f.name.removesuffix("_s"): f.name for f in fields(Limits)}
    limits = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            limits[known[name.strip().removesuffix("_s")]] = float(value)
        except (KeyError, ValueError):
            limits[""] = 0.0
    if not all(0 < limit < math.inf for limit in limits.values()):
        raise StudyError(
            f"--slo needs NAME=SECONDS with names {', '.join(known)} and seconds above 0, "
            f"like ttft_p99=2,itl_p99=0.05; got {text!r}"
        )
    return Limits(**limits)


def read_case(source: Source, chosen: EngineConfig, seed: int) -> Case:
    """What was asked for. Raises `StudyError` when the options do not go together."""
    if source.study is not None:
        if any(getattr(source, f.name) is not None for f in fields(source)[1:]):
            raise StudyError(
                "--trace, --map, --latency-model, --num-kv-blocks and --slo go without a study; "
                "remove them or the study"
            )
        return from_run(source.study, find_run(source.study), chosen, seed)
    if source.trace is None or source.latency_model is None:
        raise StudyError("give a study, or both --trace and --latency-model")
    from profiler.traffic.columns import ColumnMap  # heavy: not needed with a study
    from profiler.traffic.readers import read_trace

    model = load_latency_model(source.latency_model)
    mapping = ColumnMap.parse(source.columns) if source.columns else None
    traffic = read_trace(source.trace, mapping=mapping).trace
    limits = parse_slo(source.slo) if source.slo else Limits()
    problem = trace_problem(traffic, model, limits, source.num_kv_blocks)
    return Case(problem, chosen, seed, model.facts)


def from_run(target: Path, folder: RunFolder, chosen: EngineConfig, seed: int) -> Case:
    """The study's traffic and profile, its fixed settings changed by `chosen`.

    Raises `ResultsError` when the run has no profile yet.
    """
    from tuner.search.kept import load_kept  # heavy: not needed without a study

    run = load_kept(target, folder)
    recommended = None
    if run.finished:
        recommended = EngineConfig.from_settings(run.results.recommended.settings)
    return Case(
        problem=run.problem(),
        config=chosen.over(run.study.fixed),
        seed=seed,
        facts=run.measured.facts,
        accepted=run.study.engine.unchecked,
        recommended=recommended,
    )


def trace_problem(
    traffic: Trace, model: StepTimeModel, limits: Limits, num_kv_blocks: int | None
) -> Problem:
    """Recorded traffic and a latency model; without SLOs every finished request is good."""
    resolved = EngineConfig.from_settings(model.facts.get("resolved", SERVER_DEFAULTS.settings()))
    blocks = num_kv_blocks or int(model.facts.get("num_kv_blocks", SERVER_KV_BLOCKS))
    slo = Slo(traffic.class_names, (limits,) * len(traffic.class_names))
    table = () if num_kv_blocks else blocks_by_budget(model.facts)
    return Problem(
        traffic, model, slo, EngineConfig(), resolved, blocks, {}, kv_blocks_by_budget=table
    )


def print_case(case: Case, *, plots: bool, as_json: bool) -> None:
    """Simulate the case and show it."""
    simulation = case.simulate(timeline=plots and not as_json)
    found = figures(case, simulation)
    if as_json:
        print_json(found)
        return
    print_figures(found, stdout)
    if plots:
        from tuner.cli.run_charts import print_run_charts

        print_run_charts(case, simulation, stdout)


def figures(case: Case, simulation: Simulation) -> dict[str, Any]:
    """Metrics of the simulated run, with `requests`, `steps`, `preemptions`, `simulation_s`."""
    metrics = case.problem.score(simulation, case.config, seed=case.seed)
    full = resolve(case.config, case.problem.resolved)
    return {
        "settings": case.config.settings(),
        **metrics.to_dict(),
        "requests": metrics.num_requests,
        "steps": simulation.num_steps,
        "preemptions": simulation.num_preemptions,
        "simulation_s": simulation.simulation_s,
        **drafts_figures(simulation),
        "not_sampled": not_sampled(case.problem.model, full, case.problem.trace),
        "unchecked_engine": case.unchecked_note(accept=True),
    }


def drafts_figures(simulation: Simulation) -> dict[str, float]:
    """Draft tokens and the share of accepted ones; nothing without speculation."""
    if simulation.num_drafts == 0:
        return {}
    share = simulation.num_accepted / simulation.num_drafts
    return {"drafts": simulation.num_drafts, "accepted_share": share}


_NOT_ROWS = (
    "settings",
    "violations",
    "classes",
    "not_sampled",
    "unchecked_engine",
    "intervals",
    "chance",
)


def print_figures(found: dict[str, Any], console: Console) -> None:
    """The figures as a table, times in milliseconds where they are short."""
    table = Table("figure", "value", title=f"simulated with {found['settings'] or 'defaults'}")
    for name, value in found.items():
        if name not in _NOT_ROWS:
            table.add_row(name, _text(value) + _interval(found["intervals"].get(name)))
    for name, violation in found["violations"].items():
        if not name.endswith(".unserved"):
            table.add_row(f"{name} against its limit", f"{100 * violation:+.0f} %")
    for name in found["chance"]:
        if not name.endswith(".unserved"):
            table.add_row(f"chance to meet {name}", odds(found, name))
    console.print(table)
    if found["num_rejected"]:
        console.print(
            f"{found['num_rejected']} of {found['requests']} requests were rejected: longer than "
            "max_model_len or than the KV pool",
            highlight=False,
        )
    for sentence in found["not_sampled"]:
        console.print(f"Not sampled by the latency model: {sentence}", highlight=False)


def _interval(ends: list[float] | None) -> str:
    return "" if ends is None else f" ({_text(ends[0])}-{_text(ends[1])})"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else str(value)
