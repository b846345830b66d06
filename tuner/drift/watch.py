"""Is a finished study still right? Its traffic, engine and version, and what a new one is worth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from profiler.engine_config import EngineConfig
from profiler.engines.base import Progress
from profiler.outcomes import Outcomes
from profiler.traffic.trace import Trace
from tuner.drift import engine as compared
from tuner.drift.engine import EngineDrift, compare_engine, settings_drift
from tuner.drift.finding import Finding
from tuner.drift.price import TRIALS, Price, outside_sampled, price
from tuner.drift.scrape import Scrape
from tuner.drift.traffic import TrafficDrift, compare_traffic
from tuner.drift.version import VersionDrift, compare_version
from tuner.intervals import ALL
from tuner.metrics import Metrics
from tuner.results import Results
from tuner.schema import Study
from tuner.search.kept import KeptRun
from tuner.search.objective import Problem
from tuner.search.pareto import LIKELY
from tuner.search.progress import Ui
from tuner.search.settings import resolve
from tuner.slo import missed_in_words
from tuner.study import build_trace
from tuner.traffic_section import Traffic
from tuner.windows import each_window

WORTH = 0.97
"""share of the reachable goodput from which drifted traffic alone is no reason to tune again"""


@dataclass(frozen=True)
class WatchOptions:
    """What there is to compare with."""

    metrics: Scrape | None = None
    """the engine's, over the time of the new traffic"""
    version: str | None = None
    """of the engine that runs"""
    worth: float = WORTH
    trials: int = TRIALS


@dataclass(frozen=True)
class Watched:
    """What was found. Filled by `watch`."""

    study: str
    traffic: TrafficDrift
    engine: EngineDrift | None
    """None without metrics"""
    version: VersionDrift
    price: Price
    worth: float
    num_refused: int
    """requests of the new traffic that are too long for the engine"""
    outside: list[str]
    """what the latency model was not sampled for and the new traffic may reach, in words"""
    profile_again: bool
    """the kept profile does not hold any more, so that a new study must measure one"""

    @property
    def findings(self) -> list[Finding]:
        """Every comparison of traffic and engine."""
        return self.traffic.findings + ([] if self.engine is None else self.engine.findings)

    @property
    def reasons(self) -> list[str]:
        """Why to tune again, in words; empty when all is fine."""
        return [*self._traffic_reasons(), *self._engine_reasons()]

    @property
    def retune(self) -> bool:
        """Whether to tune again."""
        return bool(self.reasons)

    def _traffic_reasons(self) -> list[str]:
        drifted = [f for f in self.traffic.findings if f.drifted]
        if not drifted:
            return []
        what = f"the traffic has drifted ({named(drifted)}) and the configuration "
        return [what + text for text in self._consequences()]

    def _consequences(self) -> list[str]:
        """What the drifted traffic does to the deployed configuration, if anything."""
        found, deployed = [], self.price.deployed
        if self.price.share < self.worth:
            found.append(f"gives {100 * self.price.share:.0f} % of the goodput that is reachable")
        if not deployed.meets_slo:
            missed = missed_in_words(misses(deployed))
            hope = "" if self.price.best.meets_slo else "; nothing that was tried meets the SLOs"
            found.append(f"misses {missed}{hope}")
        elif (chance := deployed.chance.get(ALL, 1.0)) < LIKELY:
            found.append(f"meets the SLOs in only {100 * chance:.0f} % of the windows")
        if not found and self.worth >= 1.0:  # any drift counts
            found.append("was tuned for other traffic")
        return found

    def _engine_reasons(self) -> list[str]:
        found = []
        if self.engine is not None:
            drifted = [f for f in self.engine.findings if f.drifted]
            if drifted:
                found.append(f"the engine is not what the latency model says ({named(drifted)})")
            found += self.engine.settings
        if self.version.drifted:
            v = self.version
            found.append(f"the engine is {v.running}, profiled was {v.profiled}: {v.note}")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "study": self.study,
            "retune": self.retune,
            "reasons": self.reasons,
            "traffic": self.traffic.to_dict(),
            "engine": None if self.engine is None else self.engine.to_dict(),
            "version": self.version.to_dict(),
            "price": self.price.to_dict(),
            "num_refused": self.num_refused,
            "not_sampled": self.outside,
            "profile_again": self.profile_again,
        }


def named(findings: list[Finding]) -> str:
    """The quantities of `findings` in words."""
    return ", ".join(f.quantity if f.of == ALL else f"{f.quantity} of {f.of}" for f in findings)


def misses(metrics: Metrics) -> dict[str, float]:
    """Relative violation of each SLO that is violated."""
    return {name: v for name, v in metrics.violations.items() if v > 0}


def watch(run: KeptRun, trace: Trace, options: WatchOptions, ui: Ui) -> Watched:
    """Compare the finished `run` with what its configuration serves now.

    Parameters
    ----------
    run
        Must have finished; what it recommends is taken to be deployed.
    trace
        New traffic, from `new_traffic`.

    Raises
    ------
    StallfreeError
        Too little traffic, metrics without histograms, a run that is not finished.
    """
    results, problem = run.results, run.problem(trace)
    deployed = EngineConfig.from_settings(results.recommended.settings)
    full = resolve(deployed, problem.resolved)
    ui.stage(f"comparing {trace.num_requests} requests with {run.trace.num_requests} of the study")
    traffic = compare_traffic(run.trace, trace)
    version = compare_version(run.measured.facts, options.version, full.settings())
    drift = None
    if options.metrics is not None:
        with ui.progress("simulating what the metrics should be") as progress:
            drift = _engine_drift(problem, deployed, options.metrics, results, progress)
    outside = outside_sampled(run, trace)
    again = bool(outside) or version.drifted
    again = again or (drift is not None and any(f.drifted for f in drift.findings))
    with ui.progress("what is reachable") as progress:
        worth = price(run, problem, progress, profile_again=again, trials=options.trials)
    longest = full.max_model_len or np.iinfo(np.int64).max
    return Watched(
        study=run.study.name,
        traffic=traffic,
        engine=drift,
        version=version,
        price=worth,
        worth=options.worth,
        num_refused=int((trace.prompt_tokens >= longest).sum()),
        outside=outside,
        profile_again=again,
    )


def _engine_drift(
    problem: Problem, deployed: EngineConfig, seen: Scrape, results: Results, progress: Progress
) -> EngineDrift:
    """The engine's histograms against simulations of the deployed configuration."""

    def windows() -> Iterator[Outcomes]:
        drawn = each_window(problem.trace, compared.NUM_WINDOWS)
        for number, window in enumerate(drawn, start=1):
            progress(number, compared.NUM_WINDOWS)
            yield problem.simulate(deployed, seed=number, trace=window).outcomes

    own = problem.simulate(deployed).outcomes
    found = compare_engine(seen, own, windows(), known_error(results))
    full = resolve(deployed, problem.resolved)
    expected = {
        "num_gpu_blocks": problem.kv_blocks(full),
        "block_size": full.block_size,
        "enable_prefix_caching": full.enable_prefix_caching,
    }
    return replace(found, settings=settings_drift(seen.cache, expected))


def known_error(results: Results) -> dict[str, float]:
    """By kind of latency, how far predicted and confirmed means of the recommended configuration
    are apart, relative; empty where nothing was confirmed."""
    predicted, confirmed = results.recommended.predicted, results.recommended.measured
    if predicted is None or confirmed is None:
        return {}
    found = {}
    for kind, name in ((compared.TTFT, "ttft_mean_s"), (compared.ITL, "itl_mean_s")):
        if predicted[name] and confirmed[name]:
            found[kind] = math.expm1(abs(math.log(confirmed[name] / predicted[name])))
    return found | ({compared.E2E: max(found.values())} if found else {})


def new_study(study: Study, path: Path, columns: Mapping[str, str] | None) -> Study:
    """The study with the recorded traffic in `path` instead of its own, as it is: at its own rate
    and in full, but for the study's share of the requests and its caps on their lengths."""
    old = study.traffic
    traffic = Traffic(
        path=str(path.resolve()),
        map=dict(columns) if columns else None,
        share=old.share,
        max_prompt_tokens=old.max_prompt_tokens,
        max_output_tokens=old.max_output_tokens,
        seed=old.seed,
    )
    return study.model_copy(update={"traffic": traffic})


def new_traffic(study: Study) -> Trace:
    """The traffic of a `new_study`. Classes that have limits of their own and no requests in it
    are kept, without requests. Raises `TraceError`."""
    trace = build_trace(study)
    missing = [name for name in study.slo.classes if name not in trace.class_names]
    if not missing:
        return trace
    names = (*trace.class_names, *missing)
    return replace(trace, request_class=trace.classes, class_names=names)
