"""What is reachable, and what a new study costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from profiler.engine_config import EngineConfig
from tuner.drift.price import Cost, best_of, cost_of, price, starting_points
from tuner.metrics import Metrics
from tuner.results import Results, RunFolder
from tuner.search.kept import load_kept


def figures(goodput: float, violation: float) -> Metrics:
    numbers = dict.fromkeys((n for n in Metrics.__dataclass_fields__ if n not in _NO_NUMBERS), 0.0)
    numbers["goodput_rps"] = goodput
    return Metrics(**numbers, violations={"default.ttft_p99_s": violation})  # type: ignore[arg-type]


_NO_NUMBERS = ("violations", "classes", "num_windows", "intervals", "chance")


def test_the_best_meets_the_slos_if_any_does() -> None:
    assert best_of([figures(9, 0.5), figures(5, -0.1), figures(4, -0.5)]) == 1
    assert best_of([figures(1, 0.1), figures(5, 2.0), figures(4, 1.0)]) == 1


def test_a_search_begins_with_the_best_of_before(results: Results) -> None:
    points = starting_points(results)
    assert points[0] == results.recommended.settings
    assert results.default.settings in points
    assert points[-1] == results.front[1]["settings"]


def test_the_price_is_that_of_the_simulations(finished_run: Path) -> None:
    run = load_kept(finished_run, RunFolder(finished_run))
    problem = replace(run.problem(), windows=1)
    found = price(run, problem, lambda done, total: None, profile_again=True, trials=4)
    own = problem.evaluate(EngineConfig.from_settings(run.results.recommended.settings))
    best = problem.evaluate(EngineConfig.from_settings(found.settings))
    assert (found.deployed, found.best, found.trials) == (own, best, 4)
    assert found.share == pytest.approx(min(1.0, own.goodput_rps / best.goodput_rps))
    assert found.cost.profile_s == run.measured.facts["elapsed_s"]
    assert cost_of(run, profile_again=False).profile_s == 0


def test_costs_say_how_they_were_computed() -> None:
    assert Cost(60.0, 120.0, 4).minutes == 3
    assert "60 s of profiling" in Cost(60.0, 120.0, 4).how
    assert "used again, 4 replays of 120 s" in Cost(0.0, 120.0, 4).how
    assert "predicted" in Cost(0.0, 0.0, 0).how
