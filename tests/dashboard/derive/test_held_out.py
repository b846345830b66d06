"""Held-out predictions and coverage of a profile, against the profile's own report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dashboard.derive.coverage import coverage
from dashboard.derive.held_out import MOST_POINTS, held_out
from dashboard.derive.machine import machine_speed
from dashboard.derive.profiles import profile_place, profiles_of
from dashboard.work import Job
from profiler.collect import Profile
from profiler.errors import ResultsError
from tests.dashboard.derive.test_pool_use import quiet
from tuner.results import RunFolder


@pytest.fixture(scope="module")
def found(storage: Path) -> dict[str, Any]:
    """As a page has it, so that it is computed once for both."""
    return Job("", held_out, storage / "finished", ("profile",)).run(quiet)


def test_errors_are_those_of_the_profiles_report(found: dict[str, Any], finished_run: Path) -> None:
    report = Profile.load(finished_run / "profile").report
    whole = {row.region: row for row in report.rows if row.size == "all" and row.region != "all"}
    assert set(found["regions"]) == set(whole)
    for region, one in found["regions"].items():
        assert one["num_steps"] == whole[region].num_steps
        assert one["median"] == pytest.approx(whole[region].median)
        assert one["p95"] == pytest.approx(whole[region].p95)


def test_points_and_shares(found: dict[str, Any]) -> None:
    assert not found["predicted_profile"]
    for one in found["regions"].values():
        points = len(one["measured_s"])
        assert points == len(one["predicted_s"]) == len(one["tokens"])
        assert points == min(one["num_steps"], MOST_POINTS)
        assert sum(one["share_percent"]) == pytest.approx(100, abs=0.1)
        assert len(one["share_percent"]) == len(found["edges_percent"]) - 1
        assert 0 <= one["close"] <= 1


def test_an_unknown_profile_is_never_a_path(finished_run: Path) -> None:
    folder = RunFolder(finished_run)
    assert list(profiles_of(folder)) == ["profile"]
    with pytest.raises(ResultsError, match="holds no profile"):
        profile_place(folder, "../profile")


def test_coverage_of_one_engine(finished_run: Path) -> None:
    settings = RunFolder(finished_run).load_results().recommended.settings
    plain = coverage(finished_run, "profile", settings, progress=quiet)
    simulated, budget = plain["simulated"], settings["max_num_batched_tokens"]
    assert max(simulated["with_chunks"]["prompt_tokens"]) <= budget
    assert min(simulated["with_chunks"]["prompt_tokens"]) > 0
    assert set(simulated["decode_only"]["prompt_tokens"]) == {0}
    assert plain["sampled"]["num_steps"] > 100
    assert all(0 < share <= 1 for share in plain["beyond"].values())


def test_coverage_says_what_lies_beyond(finished_run: Path) -> None:
    """At the largest budget of the space a step takes more than a profile of a smaller one."""
    folder, wide = RunFolder(finished_run), {"max_num_batched_tokens": 2048, "max_model_len": 4096}
    narrow = Profile.load(folder.profile)
    highest = narrow.model.region.highest("prefill_tokens")
    plain = coverage(finished_run, "profile", wide, progress=quiet)
    reached = max(plain["simulated"]["with_chunks"]["prompt_tokens"])
    assert ("prefill_tokens" in plain["beyond"]) == (reached > 2**0.25 * highest)


@pytest.mark.parametrize("mode", ["aggregated", "disaggregated"])
def test_coverage_of_a_fleet(fleet_place: Path, mode: str) -> None:
    folder = RunFolder(fleet_place / "fleet")
    settings = next(
        p["settings"] for p in folder.load_results().front if p["settings"]["mode"] == mode
    )
    plain = coverage(folder.path, "profile", settings, progress=quiet)
    assert (plain["simulated"] is None) == (mode == "disaggregated")
    assert (plain["why"] is None) == (mode == "aggregated")


def test_speed_of_a_steady_machine(finished_run: Path) -> None:
    profile = Profile.load(finished_run / "profile")
    speed = machine_speed(profile.samples, profile.facts["sentinel_reference_s"])
    assert speed is not None
    assert len(speed["reading"]) == profile.facts["num_sentinels"]
    assert speed["reading"] == pytest.approx([1.0] * len(speed["reading"]))
    assert np.all(np.diff(speed["used_s"]) >= 0)
    without = profile.samples.select(~profile.samples.is_sentinel)
    assert machine_speed(without, 1.0) is None
