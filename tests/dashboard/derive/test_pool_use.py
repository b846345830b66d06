"""Use of pools, against the simulation and a slow twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dashboard.derive.points import fleet_of
from dashboard.derive.pool_use import in_progress, pool_use
from profiler.errors import ResultsError
from tuner.fleet_plan import FleetPlan
from tuner.results import RunFolder


def quiet(done: int, total: int) -> None:
    """No progress bar."""


def test_in_progress_counts_as_one_would_by_hand() -> None:
    rng = np.random.default_rng(3)
    begins = rng.uniform(0, 10, 60)
    ends = np.where(rng.uniform(size=60) < 0.1, np.inf, begins + rng.uniform(0, 4, 60))
    replica, time_s = rng.integers(0, 3, 60), np.linspace(0, 12, 17)
    slow = [
        [
            sum(b <= t < e for b, e, r in zip(begins, ends, replica, strict=True) if r == i)
            for t in time_s
        ]
        for i in range(4)
    ]
    assert in_progress(begins, ends, replica, 4, time_s).tolist() == slow


@pytest.mark.parametrize("mode", ["aggregated", "disaggregated"])
def test_use_of_every_kind_of_fleet(fleet_place: Path, mode: str) -> None:
    folder = RunFolder(fleet_place / "fleet")
    settings = next(
        p["settings"] for p in folder.load_results().front if p["settings"]["mode"] == mode
    )
    found, plan = pool_use(folder.path, settings, progress=quiet), FleetPlan.from_settings(settings)
    problem = fleet_of(folder.path)
    assert list(found["pools"]) == [pool.role for pool in plan.pools]
    for pool in plan.pools:
        use = found["pools"][pool.role]
        assert len(use["requests"]) == len(use["tokens"]) == pool.replicas
        assert sum(use["requests"]) == problem.trace.num_requests
        tokens = (
            problem.trace.output_tokens if pool.role == "decode" else problem.trace.prompt_tokens
        )
        assert sum(use["tokens"]) == int(tokens.sum())
        assert len(use["mean"]) == len(found["time_s"])
        assert max(use["most"]) >= max(use["mean"]) > 0
        assert use["mean"][-1] == 0, "all have ended"
    assert (found["transfer"] is None) == (mode == "aggregated")
    if found["transfer"]:
        assert 0 < found["transfer"]["load_p50_s"] <= found["transfer"]["load_p99_s"]


def test_a_run_of_one_engine_has_no_fleet(finished_run: Path) -> None:
    with pytest.raises(ResultsError, match="has no pools"):
        fleet_of(finished_run)
