"""Spikes, the steps around them, and what was measured of the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from dashboard.derive import why
from dashboard.derive.late import late_requests
from dashboard.derive.measured_steps import profile_steps, replayed_ttfts
from dashboard.derive.points import opened, simulated
from profiler.engine_config import EngineConfig
from tests.dashboard.derive.test_derived_latency import silent
from tuner.results import RunFolder
from tuner.search.confirm import replay_key


def test_the_worst_are_apart_and_in_order() -> None:
    values = np.array([5.0, 9.0, 8.0, 0.0, 7.0, 1.0])
    at_s = np.array([0.0, 10.0, 11.0, 20.0, 30.0, 40.0])
    assert why.worst(values, at_s, 2.0) == [1, 4, 0, 5]
    assert why.worst(values, at_s, 100.0) == [1]
    assert why.worst(np.zeros(3), np.arange(3.0), 1.0) == []
    assert len(why.worst(np.ones(500), np.arange(500.0), 1.0)) == why.NUM_WORST


def test_spikes_are_explained_as_listed(finished_run: Path) -> None:
    found = why.spikes(finished_run, {}, progress=silent)
    json.dumps(found, allow_nan=False)
    for one in (*found["gaps"][:3], *found["ttfts"][:3]):
        told = why.story(finished_run, {}, one["what"], progress=silent)
        json.dumps(told, allow_nan=False)
        first = told["stories"][0]
        assert first["seconds"] == pytest.approx(one["seconds"])
        assert len(first["steps"]) <= why.MOST_STEPS
        for step in first["steps"]:
            parts = sum(c["seconds"] for c in step["chunks"]) + step["decodes_s"] + step["jitter_s"]
            assert parts == pytest.approx(step["seconds"])


def test_the_gap_lies_between_two_of_the_shown_tokens(finished_run: Path) -> None:
    told = why.story(finished_run, {}, "worst-itl", progress=silent)
    (one,) = told["stories"]
    assert one["kind"] == "gap"
    assert {round(one["start_s"], 9), round(one["end_s"], 9)} <= {
        round(t, 9) for t in one["tokens_s"]
    }
    assert max(told["gaps_s"]) == pytest.approx(one["seconds"], rel=1e-4)


def test_a_waterfall_ends_with_the_last_token(finished_run: Path) -> None:
    outcomes = simulated(finished_run, {}).outcomes
    for request in (0, 7, 40):
        told = why.story(finished_run, {}, f"request:{request + 1}", progress=silent)
        parts = told["waterfall"]
        ends = [p["start_s"] + p["seconds"] for p in parts]
        assert parts[0]["start_s"] == 0.0
        assert [p["start_s"] for p in parts[1:]] == pytest.approx(ends[:-1])
        whole = outcomes.finish_s[request] - outcomes.arrival_s[request]
        assert ends[-1] == pytest.approx(whole)
        ttft = outcomes.first_token_s[request] - outcomes.arrival_s[request]
        assert ends[-2] == pytest.approx(ttft)


def test_what_cannot_be_explained_is_one_line(finished_run: Path) -> None:
    for what, words in (
        ("request:99999", "no request 99999"),
        ("step:99999999", "no step"),
        ("everything", "cannot explain"),
    ):
        assert words in why.story(finished_run, {}, what, progress=silent)["refused"]
    bad = {"max_num_batched_tokens": 8, "max_num_seqs": 64}
    assert "max_num_seqs" in why.spikes(finished_run, bad, progress=silent)["refused"]


def test_drafts_are_refused_in_one_line(finished_run: Path, tmp_path: Path) -> None:
    shutil.copytree(finished_run, tmp_path / "run")
    study = yaml.safe_load((tmp_path / "run" / "study.yaml").read_text())
    study["engine"]["acceptance"] = 0.7
    (tmp_path / "run" / "study.yaml").write_text(yaml.safe_dump(study))
    settings = {"num_speculative_tokens": 2}
    refused = why.spikes(tmp_path / "run", settings, progress=silent)["refused"]
    assert "num_speculative_tokens=2; set it to 0" in refused
    assert refused == why.story(tmp_path / "run", settings, "worst-itl", progress=silent)["refused"]


def test_replays_are_those_that_are_kept(finished_run: Path) -> None:
    folder = RunFolder(finished_run)
    settings = folder.load_results().recommended.settings
    found = replayed_ttfts(finished_run, settings, progress=silent)
    json.dumps(found, allow_nan=False)
    run = opened(finished_run)
    trace = run.trace.slice(0.0, run.study.validate_.seconds)
    saved = folder.load_replay(replay_key(EngineConfig.from_settings(settings), trace), 0)
    assert saved is not None and found["requests"] == trace.num_requests
    ttft = saved.raw.first_token_s - saved.raw.arrival_s
    assert found["rounds"][0]["seen_s"] == pytest.approx(list(ttft), rel=1e-4)
    assert replayed_ttfts(finished_run, {"max_num_seqs": 3}, progress=silent) == {}
    told = why.story(finished_run, settings, "request:2", progress=silent)
    assert told["replays"][0]["ttft_s"] == pytest.approx(ttft[1])
    late = why.story(finished_run, settings, f"request:{trace.num_requests + 1}", progress=silent)
    assert late["replays"] == []


def test_steps_of_the_profile_are_near_the_simulated_ones(finished_run: Path) -> None:
    """The fake engine follows its latency model, but for noise, so both show the same steps."""
    found = profile_steps(finished_run, progress=silent)
    json.dumps(found, allow_nan=False)
    measured, simulated_ = found["measured"], found["simulated"]
    assert measured["time_s"][0] == simulated_["time_s"][0] == 0.0
    assert sum(measured["tokens"]) == sum(simulated_["tokens"])
    assert np.median(measured["seconds"]) == pytest.approx(
        np.median(simulated_["seconds"]), rel=0.15
    )
    similar = why.story(finished_run, {}, "worst-itl", progress=silent)["similar"]
    assert similar["count"] == 0 or similar["low_s"] <= similar["median_s"] <= similar["high_s"]


def test_the_latest_requests_of_a_fleet(fleet_place: Path) -> None:
    folder = fleet_place / "fleet"
    results = RunFolder(folder).load_results()
    modes = set()
    for point in results.front[:9]:
        found = late_requests(folder, point["settings"], progress=silent)
        json.dumps(found, allow_nan=False)
        first = found["requests"][0]
        assert first["seconds"] == max(one["seconds"] for one in found["requests"])
        split = first["load_s"] is not None
        if split:
            parts = first["prefill_s"] + first["wait_s"] + first["load_s"]
            assert 0 < parts < first["seconds"]
            assert first["decode_replica"] > first["replica"]
        modes.add(split)
    assert modes == {True, False}
