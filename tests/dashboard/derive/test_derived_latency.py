"""Distributions against the metrics, columns of time against plain loops, load curves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dashboard.derive import latency
from dashboard.derive.load import capacity
from dashboard.derive.points import DEFAULT, RECOMMENDED, outcomes_of, points_of, problem_of
from profiler.outcomes import Outcomes, Status
from tuner.export.from_results import picked
from tuner.metrics import compute
from tuner.results import Results, RunFolder
from tuner.search.load_curve import LoadCurve, load_curves
from tuner.search.objective import Problem
from tuner.simulator import Timeline


def silent(done: int, total: int) -> None:
    assert done <= total


def at(found: dict[str, Any], values: list[float | None], percent: float) -> float | None:
    return values[found["percents"].index(percent)]


@pytest.fixture(scope="module")
def results(finished_run: Path) -> Results:
    return RunFolder(finished_run).load_results()


def test_points_are_named_and_none_comes_twice(results: Results) -> None:
    numbers = [p["number"] for p in results.front]
    points = points_of(results, picked(results), [*numbers[:2], 12345])
    assert list(points)[:2] == [RECOMMENDED, DEFAULT]
    assert len({json.dumps(s, sort_keys=True) for s in points.values()}) == len(points)
    assert next(iter(points_of(results, picked(results, "0")))) == DEFAULT


def test_distributions_are_those_of_the_metrics(finished_run: Path, results: Results) -> None:
    points = points_of(results, picked(results))
    found = latency.distributions(finished_run, points, progress=silent)
    json.dumps(found, allow_nan=False)
    problem = problem_of(finished_run)
    for name, settings in points.items():
        metrics = compute(outcomes_of(finished_run, settings), problem.slo)
        one = found["points"][name]["all"]
        for percent, expected in ((50, metrics.itl_p50_s), (99, metrics.itl_p99_s)):
            assert at(found, one["itl_s"], percent) == pytest.approx(expected)
        ttft = outcomes_of(finished_run, settings)
        longest = np.nanmax(ttft.first_token_s - ttft.arrival_s)
        assert at(found, one["ttft_s"], 100) == pytest.approx(longest)
        assert one["num_ttft"] == metrics.num_finished and one["unanswered"] == 0


def test_replays_are_found_and_give_the_figures_of_the_results(
    finished_run: Path, results: Results
) -> None:
    """The predicted line too is of the very simulations that the results' figures are of."""
    points = {RECOMMENDED: results.recommended.settings, "other": {"max_num_seqs": 3}}
    found = latency.confirmed(finished_run, points, progress=silent)
    json.dumps(found, allow_nan=False)
    assert list(found["points"]) == [RECOMMENDED]
    one, candidate = found["points"][RECOMMENDED], results.recommended
    assert one["rounds"] == len(candidate.replays) == 2
    assert one["speeds"] == [r["speed"] for r in candidate.replays]
    for line, metrics in (
        ("predicted", candidate.predicted),
        ("seen", candidate.measured),
        ("corrected", candidate.corrected),
    ):
        assert metrics is not None
        p99 = at(found, one["lines"][line]["all"]["itl_s"], 99)
        assert p99 == pytest.approx(metrics["itl_p99_s"])


def test_what_cannot_be_simulated_says_why(finished_run: Path) -> None:
    points = {"bad": {"max_num_batched_tokens": 8, "max_num_seqs": 64}}
    for work in (latency.distributions, latency.over_time):
        found = work(finished_run, points, progress=silent)
        assert "max_num_seqs" in found.get("points", found)["bad"]["failure"]
    assert list(capacity(finished_run, points, progress=silent)["failures"]) == ["bad"]


def test_classes_failed_and_unanswered_requests() -> None:
    """Two classes; one request failed (it takes for ever), one got no token."""
    outcomes = Outcomes(
        arrival_s=np.zeros(4),
        first_token_s=np.array([1.0, 2.0, np.nan, np.nan]),
        finish_s=np.array([3.0, 3.0, np.nan, np.nan]),
        prompt_tokens=np.ones(4, dtype=np.int64),
        output_tokens=np.array([2, 2, 0, 0]),
        status=np.array([Status.FINISHED, Status.FINISHED, Status.FAILED, Status.UNFINISHED]),
        request_class=np.array([0, 1, 1, 0]),
        num_slow_gaps=np.zeros(4, dtype=np.int64),
        itl_limit_s=np.full(2, np.nan),
        gap_s=np.array([2.0, 1.0]),
        gap_weight=np.array([[1, 0], [0, 1]]),
    )
    found = latency.by_class(outcomes, ("chat", "code"))
    assert set(found) == {"all", "chat", "code"}
    assert found["all"]["unanswered"] == 2 and found["chat"]["unanswered"] == 1
    assert found["code"]["ttft_s"][-1] is None and found["chat"]["ttft_s"][-1] == 1.0
    assert found["chat"]["itl_s"][-1] == 2.0 and found["code"]["num_itl"] == 1


def test_columns_of_time_against_a_plain_loop() -> None:
    rng = np.random.default_rng(3)
    end = np.sort(rng.uniform(0, 100, 5000))
    counts = rng.integers(0, 50, (5, end.size))
    line = Timeline(end, end, end, counts[0], counts[1], counts[1], counts[2], counts[3], counts[4])
    found = latency.columns_of(line, 100)
    assert len(found["time_s"]) <= latency.COLUMNS
    width = (end[-1] - end[0]) / latency.COLUMNS
    for i, middle in enumerate(found["time_s"]):
        inside = np.abs(end - middle) < 0.498 * width  # times are kept to five digits
        tokens = (counts[0] + counts[1])[inside]
        assert tokens.size == 0 or found["tokens"]["peak"][i] >= tokens.max()
    assert max(found["waiting"]["peak"]) == counts[3].max()
    assert max(found["kv"]["peak"]) == pytest.approx(100 - counts[4].min())
    running = found["running"]
    assert all(m <= p for m, p in zip(running["median"], running["peak"], strict=True))
    assert latency.columns_of(Timeline(*(np.empty(0),) * 9), 10) == {"time_s": []}


def test_the_capacity_is_that_of_the_load_curve(finished_run: Path, results: Results) -> None:
    problem = problem_of(finished_run)
    assert isinstance(problem, Problem)
    found = capacity(finished_run, {DEFAULT: results.default.settings}, progress=silent)
    json.dumps(found, allow_nan=False)
    (expected,) = load_curves(problem, {DEFAULT: problem.fixed}, silent)
    curve = LoadCurve.from_dict(found["curves"][DEFAULT])
    assert curve.highest_rps == expected.highest_rps and curve.bounded == expected.bounded
    assert [p.rate_rps for p in curve.drawn] == [p.rate_rps for p in expected.drawn]
    assert found["rate_rps"] == problem.trace.rate_rps


def test_fleets_have_distributions_and_load_curves(fleet_place: Path) -> None:
    folder = fleet_place / "fleet"
    results = RunFolder(folder).load_results()
    points = points_of(results, picked(results))
    found = latency.distributions(folder, points, progress=silent)
    assert all(one["all"]["num_itl"] > 0 for one in found["points"].values())
    curves = capacity(folder, {DEFAULT: results.default.settings}, progress=silent)["curves"]
    assert len(curves[DEFAULT]["points"]) == 8
    assert latency.confirmed(folder, points, progress=silent)["points"] == {}
