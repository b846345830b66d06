"""Settings -> simulation -> metrics -> the search's values and constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from profiler.engine_config import EngineConfig
from profiler.engines.base import kv_blocks_at
from profiler.engines.rehearsal import REHEARSAL
from profiler.errors import KnobError, LatencyModelError, LinkError, SimulationError, StudyError
from profiler.latency.base import StepTimeModel
from profiler.traffic.trace import Trace
from tuner.intervals import over_windows
from tuner.metrics import Metrics
from tuner.search.settings import repair, resolve
from tuner.simulator import Simulation, simulate
from tuner.slo import Slo
from tuner.windows import draw_windows

if TYPE_CHECKING:  # heavy, and not needed to simulate
    from profiler.collect import Profile
    from tuner.schema import Study
    from tuner.space_section import Axis

NEVER_S = 1e9
"""value of a latency that does not exist (nothing was served); Optuna refuses NaN"""


@dataclass(frozen=True)
class Problem:
    """Settings of one engine, as `searchable.Searchable` has it; plain data, so that it can go to
    another process."""

    trace: Trace
    model: StepTimeModel
    slo: Slo
    fixed: EngineConfig
    """settings that are not searched"""
    resolved: EngineConfig
    """every setting, as the engine resolved its default"""
    num_kv_blocks: int
    """at the engine's default token budget"""
    space: Mapping[str, Axis]
    windows: int = 1
    """arrival windows that a candidate is scored over; 1 is the trace alone"""
    acceptance: float | tuple[float, ...] | None = None
    """of draft tokens, as `simulate` takes it"""
    kv_blocks_by_budget: tuple[tuple[int, int], ...] = ()
    """(token budget, KV blocks), ascending, where the profile knows it; empty: always the same"""
    first: tuple[Mapping[str, Any], ...] = ()
    """settings to be tried first, for example the best for other traffic; of each, what the space
    searches counts"""

    @property
    def default(self) -> EngineConfig:
        """The engine default: only the fixed settings are given."""
        return self.fixed

    def starts(self) -> Sequence[EngineConfig]:
        """What `first` stands for in the study's space."""
        searched = ({n: s[n] for n in self.space if s.get(n) is not None} for s in self.first)
        return [self.candidate(raw) for raw in searched if raw]

    def axes(self, chosen: Mapping[str, Any]) -> Mapping[str, Axis]:
        """The study's space, whatever is chosen."""
        del chosen
        return self.space

    def raw(self, config: EngineConfig) -> dict[str, Any]:
        """Every setting, as the engine resolves it."""
        return resolve(config, self.resolved).settings()

    def worth(self, config: EngineConfig, metrics: Metrics) -> float:
        """Goodput, requests per second."""
        del config
        return metrics.goodput_rps

    @cached_property
    def drawn(self) -> list[Trace]:
        """The windows but the first, which is the trace; the same for every candidate."""
        return draw_windows(self.trace, self.windows)

    def simulate(
        self,
        config: EngineConfig,
        *,
        seed: int = 0,
        trace: Trace | None = None,
        record: bool | tuple[float, float] = False,
        timeline: bool = False,
    ) -> Simulation:
        """Simulate the engine with `config` on `trace`, by default the problem's.

        See `tuner.simulator.simulate` for the other options.

        Raises KnobError, SimulationError.
        """
        full = resolve(config, self.resolved)
        full.check()
        return simulate(
            self.trace if trace is None else trace,
            full,
            self.model,
            num_kv_blocks=self.kv_blocks(full),
            itl_limit_s=self.slo.itl_limit_s,
            seed=seed,
            record=record,
            timeline=timeline,
            acceptance=self.acceptance,
        )

    def kv_blocks(self, full: EngineConfig) -> int:
        """KV blocks of the engine with `full`."""
        if full.num_gpu_blocks_override:
            return full.num_gpu_blocks_override
        if not self.kv_blocks_by_budget or full.max_num_batched_tokens is None:
            return self.num_kv_blocks
        return kv_blocks_at(full.max_num_batched_tokens, self.kv_blocks_by_budget)

    def evaluate(self, config: EngineConfig, *, seed: int = 0) -> Metrics:
        """Predicted metrics of `config` over every window.

        Windows and the seeds of their jitter are the same for every candidate, so that two
        candidates differ by their settings alone (common random numbers).
        """
        return self.score(self.simulate(config, seed=seed), config, seed=seed)

    def score(self, simulation: Simulation, config: EngineConfig, *, seed: int = 0) -> Metrics:
        """Metrics of `simulation`, that of `config` on the trace, with those of the windows."""
        drawn = (
            self.simulate(config, seed=seed + number, trace=window).outcomes
            for number, window in enumerate(self.drawn, start=1)
        )
        return over_windows(simulation.outcomes, drawn, self.slo)

    def candidate(self, raw: Mapping[str, Any]) -> EngineConfig:
        """The configuration that the raw values of the space stand for."""
        return repair(raw, self.fixed, self.resolved)


REFUSED = (KnobError, SimulationError, LatencyModelError, LinkError)
"""what makes a configuration infeasible instead of ending the search"""


def values(metrics: Metrics, worth: float) -> tuple[float, float, float]:
    """The objectives: TTFT p99 (min), ITL p99 (min), worth (max): goodput, unless it is a fleet."""
    return _or_never(metrics.ttft_p99_s), _or_zero(metrics.itl_p99_s), worth


def _or_never(value: float) -> float:
    """Without end or without a value: a number that still can be scaled."""
    return min(value, NEVER_S) if value == value else NEVER_S


def _or_zero(value: float) -> float:
    """No gaps at all (outputs of one token) is no stall."""
    return value if value == value else 0.0


def constraints(metrics: Metrics) -> dict[str, float]:
    """Relative violation of each SLO; at most 0 is feasible. Infinity becomes `NEVER_S`."""
    return {name: min(v, NEVER_S) for name, v in metrics.violations.items()}


def blocks_by_budget(facts: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    """`Problem.kv_blocks_by_budget` from the facts of a profile or of a latency model."""
    return tuple((int(a), int(b)) for a, b in facts.get("kv_blocks_by_budget", ()))


def not_sampled(model: StepTimeModel, config: EngineConfig, trace: Trace) -> list[str]:
    """What steps of `config` on `trace` may reach that `model` was not sampled for, in words."""
    longest = int((trace.prompt_tokens + trace.output_tokens).max(initial=1))
    reachable = replace(config, max_model_len=min(config.max_model_len or longest, longest))
    return list(model.region.beyond(reachable))


def slo_of(study: Study, trace: Trace) -> Slo:
    """The study's limits for the classes of `trace`. Raises `StudyError` for an unknown class."""
    unknown = sorted(set(study.slo.classes) - set(trace.class_names))
    if unknown:
        raise StudyError(
            f"slo.classes.{unknown[0]}: the traffic has no such class; it has "
            f"{', '.join(trace.class_names)}"
        )
    classes = {name: limits.model_dump() for name, limits in study.slo.classes.items()}
    return Slo.build(trace.class_names, study.slo.default.model_dump(), classes)


def require_room(trace: Trace, max_model_len: int | None) -> None:
    """Raise `StudyError` when a prompt leaves no room for an output token, as engines refuse it."""
    if max_model_len is None:  # the engine's own; checked when it is known
        return
    too_long = np.flatnonzero(trace.prompt_tokens >= max_model_len)
    if too_long.size:
        first = int(too_long[0])
        raise StudyError(
            f"traffic: request {first + 1} has a prompt of {int(trace.prompt_tokens[first])} "
            f"tokens, max_model_len={max_model_len} takes at most {max_model_len - 1} "
            f"({too_long.size} such requests); raise max_model_len or cut prompts with "
            "traffic.max_prompt_tokens"
        )


def build_problem(study: Study, trace: Trace, measured: Profile) -> Problem:
    """What the search evaluates. Raises `StudyError` when the profile is of another engine.

    Any profile can be rehearsed.
    """
    facts = measured.facts
    if study.engine.name not in (facts["engine"], REHEARSAL):
        raise StudyError(
            f"profile.path: the profile is of engine {facts['engine']}, the study asks for "
            f"{study.engine.name}; profile again"
        )
    resolved = EngineConfig.from_settings(facts["resolved"])
    require_room(trace, resolved.max_model_len)
    return Problem(
        trace=trace,
        model=measured.model,
        slo=slo_of(study, trace),
        fixed=study.fixed,
        resolved=resolved,
        num_kv_blocks=int(facts["num_kv_blocks"]),
        space=study.search.space,
        windows=study.search.windows,
        acceptance=study.acceptance,
        kv_blocks_by_budget=blocks_by_budget(facts),
    )
