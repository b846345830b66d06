"""Seconds to search a fleet of 16 GPUs, and the front that is found. Run by `make bench`; prints,
and asserts only that there is a front.

The goal is a front over P:D, budgets and router within 60 s on two cores, compiled kernels and
profiles of the kinds of replicas given.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from rich.console import Console

from profiler.engines import start_engine
from tuner.cli.report import print_results
from tuner.results import RunFolder
from tuner.search.fleet_problem import shortened
from tuner.search.fleet_tune import fleet_problem, tune_fleet
from tuner.search.optimize import SearchOptions, search
from tuner.search.pareto import front
from tuner.search.progress import SilentUi
from tuner.search.stages import run_profile, run_trace
from tuner.simulator import prepare
from tuner.study import load_study

STUDY = Path(__file__).resolve().parents[2] / "studies" / "fleet-8b-16xh200.yaml"


@pytest.mark.bench
@pytest.mark.timeout(3600)
def test_sixteen_gpus(tmp_path: Path) -> None:
    pytest.importorskip(
        "aiconfigurator_core", reason="the published GPU data is not installed: stallfree[silicon]"
    )
    study, folder, ui = load_study(STUDY), RunFolder(tmp_path), SilentUi()
    assert study.fleet is not None
    trace = run_trace(study, folder, ui)
    measured = run_profile(study, folder, trace, ui, start_engine)
    problem = fleet_problem(study, folder, trace, measured, ui)
    short = shortened(problem, study.fleet.requests)
    prepare(fleet=True)
    options = SearchOptions(study.search.trials, study.search.workers, study.search.seed)
    started = time.perf_counter()
    trials = search(short, folder.database, options, lambda done, total: None)
    searched_s = time.perf_counter() - started
    results = tune_fleet(study, folder, trace, measured, ui)  # finds its trials in the folder
    scored_s = time.perf_counter() - started - searched_s
    print(
        f"\n16 GPUs, {len(trials)} fleets of {short.trace.num_requests:,} requests, "
        f"{options.workers} processes on {os.cpu_count()} cores: searched in {searched_s:.1f} s "
        f"(goal: 60 s); {len(results.candidates)} of them scored on {trace.num_requests:,} "
        f"requests, {study.search.windows} windows, in {scored_s:.1f} s"
    )
    print_results(results, Console(width=160))
    assert front(trials)
