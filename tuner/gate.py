"""Would these engine settings keep a study's SLOs? For the CI of a deployment repository."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from profiler.engine_config import EngineConfig
from profiler.knobs import KNOBS
from tuner.metrics import Metrics
from tuner.search.kept import KeptRun
from tuner.search.objective import Problem, not_sampled
from tuner.search.progress import Ui
from tuner.search.settings import resolve
from tuner.settings_file import FileSettings

PROPOSED, CURRENT, RECOMMENDED = "proposed", "current", "recommended"


@dataclass(frozen=True)
class Judged:
    """One configuration and its predicted figures on the study's traffic, over its windows."""

    settings: dict[str, Any]
    metrics: Metrics

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"settings": self.settings, **self.metrics.to_dict()}


@dataclass(frozen=True)
class Gate:
    """The outcome. Filled by `judge`."""

    study: str
    judged: dict[str, Judged]
    """`PROPOSED`, `CURRENT` where it was given, `RECOMMENDED`"""
    assumed: dict[str, Any]
    """settings that the study fixes and the file leaves open; taken as the study has them"""
    not_judged: list[str]
    """flags that are no knobs, in words"""
    not_sampled: list[str]
    """what the latency model was not sampled for, in words"""
    notes: list[str]

    @property
    def misses(self) -> dict[str, float]:
        """Relative violation of each SLO that the proposed settings would break."""
        violations = self.judged[PROPOSED].metrics.violations
        return {name: v for name, v in violations.items() if v > 0}

    @property
    def passes(self) -> bool:
        """Whether every SLO is met, predicted."""
        return not self.misses

    @property
    def change(self) -> float | None:
        """Goodput of the proposed settings over that of the current ones, minus 1; None where
        there is nothing to compare with."""
        current = self.judged.get(CURRENT)
        if current is None or not current.metrics.goodput_rps:
            return None
        return self.judged[PROPOSED].metrics.goodput_rps / current.metrics.goodput_rps - 1

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "study": self.study,
            "passes": self.passes,
            "misses": {k: v if math.isfinite(v) else None for k, v in self.misses.items()},
            **{name: one.to_dict() for name, one in self.judged.items()},
            "goodput_change": self.change,
            "assumed": self.assumed,
            "not_judged": self.not_judged,
            "not_sampled": self.not_sampled,
            "notes": self.notes,
        }


def judge(run: KeptRun, proposed: FileSettings, current: FileSettings | None, ui: Ui) -> Gate:
    """Predict the proposed settings beside the recommended and the current ones.

    Raises
    ------
    KnobError
        Two settings clash, as the engine would refuse them at start.
    SimulationError
        They cannot serve the traffic at all.
    """
    problem, results = run.problem(), run.results
    configs = {PROPOSED: proposed.config}
    if current is not None:
        configs[CURRENT] = current.config
    configs[RECOMMENDED] = EngineConfig.from_settings(results.recommended.settings)
    judged = {}
    with ui.progress("predicting") as progress:
        for number, (name, config) in enumerate(configs.items()):
            progress(number, len(configs))
            judged[name] = Judged(config.settings(), problem.evaluate(config))
        progress(len(configs), len(configs))
    given = proposed.config.settings()
    return Gate(
        study=run.study.name,
        judged=judged,
        assumed={k: v for k, v in run.study.fixed.settings().items() if k not in given},
        not_judged=not_judged(proposed.others, _profiled(results.engine)),
        not_sampled=_not_sampled(problem, proposed.config),
        notes=proposed.notes,
    )


def _not_sampled(problem: Problem, config: EngineConfig) -> list[str]:
    return not_sampled(problem.model, resolve(config, problem.resolved), problem.trace)


def _profiled(engine: dict[str, Any]) -> dict[str, Any]:
    """Flags, with underscores, that the engine was profiled with and that are no knobs."""
    named = {k: engine[k] for k in ("load_format", "dtype") if engine.get(k, "auto") != "auto"}
    named |= {k.replace("-", "_"): v for k, v in engine.get("args", {}).items()}
    return {name: value for name, value in named.items() if name not in KNOBS}


_SAME_ANYWAY = ("model",)


def not_judged(others: dict[str, Any], profiled: dict[str, Any]) -> list[str]:
    """Flags that are no knobs, in words; without those that are as they were profiled.

    A flag that the profile knows nothing of is named without its value, which may be a secret.
    """
    found = []
    for name in (*others, *(n for n in profiled if n not in others)):
        if name in _SAME_ANYWAY:
            continue
        if name not in profiled:
            found.append(name)
        elif name not in others:
            found.append(f"{name} is not given, profiled with {profiled[name]}")
        elif str(others[name]).lower() != str(profiled[name]).lower():
            found.append(f"{name} is {others[name]}, profiled with {profiled[name]}")
    return found
