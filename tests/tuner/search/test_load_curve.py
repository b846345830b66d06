"""Load curves: the bisection against a brute-force scan, and a real simulation's shape."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.errors import TraceError
from profiler.latency.base import load_latency_model
from profiler.traffic.synthetic import like
from profiler.traffic.trace import Trace
from tuner.metrics import Metrics, compute
from tuner.search.load_curve import FACTORS, TOLERANCE, LoadCurve, load_curves
from tuner.search.objective import Problem
from tuner.slo import Limits, Slo

CONFIG = EngineConfig(
    max_num_batched_tokens=2048,
    max_num_seqs=64,
    max_model_len=16384,
    block_size=16,
    enable_prefix_caching=False,
    async_scheduling=True,
)


def problem_of(limits: Limits, trace: Trace | None = None) -> Problem:
    trace = trace or like("azure-conv-2023", duration_s=60.0, rate_rps=6.0, seed=1)
    model = load_latency_model("example-8b")
    return Problem(trace, model, Slo(("default",), (limits,)), EngineConfig(), CONFIG, 4000, {})


class FakeProblem(Problem):
    """A latency model known in closed form, in place of a simulation."""

    rule: Callable[[float], float]
    """arrival rate to the relative violation of the SLO"""

    def evaluate(self, config: EngineConfig, *, seed: int = 0) -> Metrics:
        del config, seed
        empty = compute(NOTHING.simulate(CONFIG).outcomes, NOTHING.slo)
        violations = {"default.ttft_p99_s": type(self).rule(self.trace.rate_rps)}
        return dataclasses.replace(empty, violations=violations)


TWO = Trace(np.array([0.0, 1.0]), np.array([10, 10]), np.array([2, 2]))
NOTHING = problem_of(Limits(ttft_p99_s=1.0), TWO)


def fake_curve(rule: Callable[[float], float]) -> LoadCurve:
    """The curve of traffic of 1 request/s, so that factors are rates."""
    problem = FakeProblem(**{f.name: getattr(NOTHING, f.name) for f in dataclasses.fields(Problem)})
    FakeProblem.rule = staticmethod(rule)
    (curve,) = load_curves(problem, {"x": CONFIG}, lambda done, total: None)
    return curve


@pytest.mark.parametrize("seed", range(20))
def test_bisection_finds_what_a_scan_finds(seed: int) -> None:
    """An M/M/1 queue's waiting time, 1 / (capacity - rate), against a limit."""
    rng = random.Random(seed)
    capacity, limit_s = rng.uniform(0.1, 12.0), rng.uniform(0.2, 20.0)

    def rule(rate: float) -> float:
        wait_s = 1 / (capacity - rate) if rate < capacity else math.inf
        return (wait_s - limit_s) / limit_s

    scan = [r for r in np.arange(1e-3, 16.0, 1e-3) if rule(r) <= 0]
    curve = fake_curve(rule)
    if not scan or scan[-1] < 1 / 64:
        assert curve.highest_rps is None
        return
    assert curve.bounded
    assert curve.highest_rps is not None
    assert curve.highest_rps <= scan[-1] + 1e-3
    assert curve.highest_rps >= scan[-1] * (1 - TOLERANCE) - 1e-3
    tried = [p.factor for p in (*curve.points, *curve.probes)]
    assert len(tried) == len(set(tried))
    assert [p.factor for p in curve.points] == list(FACTORS)


def test_rates_above_a_miss_do_not_count() -> None:
    """Missed between 0.6 and 0.9, met again above: the highest rate is below the first miss."""
    curve = fake_curve(lambda rate: 1.0 if 0.6 < rate < 0.9 else -1.0)
    assert curve.highest_rps == pytest.approx(0.6, rel=TOLERANCE)


def test_never_and_always() -> None:
    never, always = fake_curve(lambda rate: 1.0), fake_curve(lambda rate: -0.5)
    assert (never.highest_rps, never.bounded) == (None, True)
    assert (always.highest_rps, always.bounded) == (16.0, False)


def test_more_load_is_never_better() -> None:
    reports: list[tuple[int, int]] = []
    problem = problem_of(Limits(ttft_p99_s=2.0, itl_p99_s=0.06))
    small = dataclasses.replace(CONFIG, max_num_batched_tokens=512)
    curves = load_curves(
        problem,
        {"default": EngineConfig(), "small": small},
        lambda done, total: reports.append((done, total)),
    )
    assert [c.name for c in curves] == ["default", "small"]
    assert reports[-1][0] == reports[-1][1]
    assert all(done <= total for done, total in reports)
    for curve in curves:
        ttft = [p.metrics.ttft_p99_s for p in curve.points]
        good = [p.metrics.slo_attainment for p in curve.points]
        assert ttft[0] < ttft[-1]
        assert good[0] >= good[-1]
        rate = problem.trace.rate_rps
        assert [p.rate_rps for p in curve.points] == pytest.approx([rate * f for f in FACTORS])
        met = {p.rate_rps: p.metrics.meets_slo for p in (*curve.points, *curve.probes)}
        assert curve.highest_rps is not None
        assert all(ok for at, ok in met.items() if at <= curve.highest_rps)
    same = problem.evaluate(EngineConfig())
    assert curves[0].points[FACTORS.index(1.0)].metrics == same


def test_without_slos_there_is_no_highest_rate() -> None:
    (curve,) = load_curves(
        problem_of(Limits()), {"x": EngineConfig()}, lambda done, total: None, factors=(0.5, 1.0)
    )
    assert curve.highest_rps is None
    assert curve.probes == []
    assert curve.to_dict()["points"][0]["factor"] == 0.5


def test_traffic_without_a_rate_is_refused() -> None:
    burst = Trace(np.zeros(2), np.array([10, 10]), np.array([2, 2]))
    with pytest.raises(TraceError, match="needs traffic with a rate"):
        load_curves(problem_of(Limits(), burst), {"x": CONFIG}, lambda done, total: None)


def test_a_curve_is_read_back() -> None:
    curve = fake_curve(lambda rate: rate - 1.4)
    again = LoadCurve.from_dict(curve.to_dict())
    assert again.to_dict() == curve.to_dict()
    assert [p.factor for p in again.drawn] == sorted(p.factor for p in again.drawn)
