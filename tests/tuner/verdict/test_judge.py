"""The whole judgement on a formula, its plain data, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from made_verdict import (
    FLIP_LENGTH,
    QUICK,
    RANKED,
    SLO,
    FormulaBench,
    aggregated,
    build,
    evaluate,
    judged,
    split,
    steady,
    two_regimes,
)

from profiler.errors import SimulationError, StudyError, TraceError
from profiler.traffic.trace import Trace
from tuner.search.progress import SilentUi
from tuner.verdict.bench import Bench
from tuner.verdict.conditions import LINK_BANDWIDTH, LOAD, OWN, PROMPT_LENGTH, Conditions
from tuner.verdict.judge import JudgeSettings, judge
from tuner.verdict.margin import compare
from tuner.verdict.options import Option, Score, refused
from tuner.verdict.report import UNITS, judgement_dict

QUICK_REGIMES = JudgeSettings(
    top=1,
    requests=100,
    windows=1,
    workers=1,
    with_map=False,
    factors={PROMPT_LENGTH: (1.0,), LINK_BANDWIDTH: (1.0,), LOAD: (1.0,)},
)


def test_the_verdict_is_that_of_the_windows() -> None:
    found = judged()
    windows = [replace(OWN, window=number) for number in range(QUICK.windows)]
    sides = [[evaluate(o, c).goodput for c in windows] for o in (aggregated(), split(1, 3))]
    assert found.comparison == compare(*sides)
    assert found.comparison.verdict == "aggregated"
    assert found.comparison.margin == pytest.approx((0.4 - 0.5) / 0.5)
    assert found.aggregated.option == aggregated()
    assert found.disaggregated.option == split(1, 3)


def test_plain_data_is_complete_json() -> None:
    plain = json.loads(json.dumps(judgement_dict(judged()), allow_nan=False))
    assert {"verdict", "margin", "probability", "aggregated", "disaggregated", "flips"} <= {*plain}
    assert plain["candidates"]["per_cell"] == len(plain["candidates"]["options"]) == 4
    assert (plain["candidates"]["aggregated"], plain["candidates"]["disaggregated"]) == (2, 2)
    assert plain["requests"] == {"verdict": 4000, "map": 300, "most_per_regime": 300}
    assert [pool["role"] for pool in plain["disaggregated"]["pools"]] == ["prefill", "decode"]
    for axis, unit in UNITS.items():
        known = plain["axes"][axis]
        assert known["unit"] == unit
        assert known["own"] == known["values"][known["factors"].index(1.0)]
    for one in plain["map"]:
        shape = [len(plain["axes"][one[name]]["factors"]) for name in ("y", "x")]
        assert [len(one["margin"]), len(one["margin"][0])] == shape
        assert one["margin"][0][0] == one["cells"][0][0]["margin"]


def test_flips_have_values_in_units() -> None:
    found = judged()
    plain = judgement_dict(found)
    assert plain["flips"][LINK_BANDWIDTH] is None
    low, high = plain["flips"][PROMPT_LENGTH]
    assert (low["below"], low["above"], high["above"]) == ("aggregated", "tie", "disaggregated")
    assert low["factor"] < FLIP_LENGTH < high["factor"]
    own = plain["axes"][PROMPT_LENGTH]["own"]
    assert low["value"] == pytest.approx(own * low["factor"], rel=0.01)
    assert low["between"][0] <= low["value"] <= low["between"][1]
    (load,) = plain["flips"][LOAD]
    rate = plain["axes"][LOAD]["own"]
    assert load["value"] == pytest.approx(rate * load["factor"])
    assert (load["below"], load["above"]) == ("tie", "aggregated")
    assert load["factor"] == pytest.approx(0.4, rel=0.03), "both serve all below 0.4"


def test_headroom_is_the_highest_load_that_meets_the_slos() -> None:
    """The formula meets them as long as the load is at most the goodput: 0.5 and 0.4."""
    plain = judgement_dict(judged())
    for side, expected in (("aggregated", 0.5), ("disaggregated", 0.4)):
        headroom = plain[side]["headroom"]
        assert headroom["bounded"]
        assert headroom["highest_factor"] == pytest.approx(expected, rel=0.02)
        assert headroom["highest_factor"] <= expected


def test_regimes_get_the_ratio_of_their_prompts() -> None:
    """Prompts of the last quarter are 3 times the mean, which two prefill replicas serve best:
    0.4 for all of the time instead of 0.35 in a quarter of it."""
    plain = judgement_dict(judged())["regimes"]
    first, second = plain["stretches"]
    assert (first["best"], second["best"], plain["static"]) == ("1:3", "2:2", "1:3")
    assert (second["planned"], second["goodput_per_gpu_rps"]) == ("2:2", 0.4)
    assert second["static_goodput_per_gpu_rps"] == pytest.approx(0.35)
    share = (second["end_s"] - second["start_s"]) / second["end_s"]
    assert plain["gain"] == pytest.approx(0.4 / (0.4 - 0.05 * share) - 1)
    assert [set(row["by_ratio"]) for row in plain["stretches"]] == [{"1:3", "2:2", "3:1"}] * 2
    assert second["mean_prompt_tokens"] > 5 * first["mean_prompt_tokens"]


def test_what_is_left_out() -> None:
    plain = judgement_dict(judged(replace(QUICK, with_map=False, with_regimes=False, windows=1)))
    assert (plain["map"], plain["regimes"], plain["probability"]) == (None, None, None)
    assert plain["margin_interval"] is None


def test_longer_traffic_is_judged_on_a_typical_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.verdict.judge.MOST_REQUESTS", 500)
    assert judgement_dict(judged())["requests"]["verdict"] == 500


@pytest.mark.parametrize(
    ("ranked", "word"), [(RANKED[:1], "disaggregated"), (RANKED[1:3], "aggregated")]
)
def test_a_side_without_candidates(ranked: tuple[Option, ...], word: str) -> None:
    bench = FormulaBench((two_regimes(),), SLO, build)
    with pytest.raises(StudyError, match=f"no {word} one"):
        judge(ranked, bench, QUICK, SilentUi())


class _NoSplit(FormulaBench):
    def __call__(self, option: Option, where: Conditions) -> Score:
        return evaluate(option, where) if option.pools is None else refused("no room at all")


def test_a_side_that_cannot_be_simulated() -> None:
    bench = _NoSplit((steady(),), SLO, build)
    with pytest.raises(SimulationError, match=r"no disaggregated .* no room at all"):
        judge(RANKED, bench, QUICK, SilentUi())


def test_traffic_without_a_rate() -> None:
    at_once = Trace.build([0.0, 0.0], [10, 10], [10, 10])
    with pytest.raises(TraceError, match="rate"):
        judge(RANKED, FormulaBench((at_once,), SLO, build), QUICK, SilentUi())


@pytest.mark.parametrize("num_between", [0, 1, 2])
def test_a_regime_with_hardly_any_request(num_between: int) -> None:
    """Its goodput is at its own rate, though its requests may all come at once."""
    parts = [np.linspace(0, 399, 1000), np.full(num_between, 500.0), np.linspace(601, 1000, 1000)]
    times = np.concatenate(parts)
    ones = np.ones(times.size, dtype=np.int64)
    bench = Bench((Trace.build(times, 100 * ones, 10 * ones),), SLO, build)
    plain = judgement_dict(judge(RANKED, bench, QUICK_REGIMES, SilentUi()))["regimes"]
    idle = plain["stretches"][1]
    assert idle["num_requests"] == num_between
    assert idle["rate_rps"] == pytest.approx(num_between / 200, rel=0.05)
    assert idle["goodput_per_gpu_rps"] == pytest.approx(idle["rate_rps"] / 4)
    assert plain["gain"] == 0, "every ratio serves such traffic"
