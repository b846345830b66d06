"""Confirmation: order of replays, drift correction, resumption, failures, the verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.engines import start_engine
from profiler.engines.base import Engine, EngineSpec
from profiler.errors import EngineDiedError, EngineStartError, EvidenceError
from profiler.latency.base import load_latency_model
from profiler.outcomes import TokenTimes
from profiler.replay import Fidelity, Replay
from profiler.replay import replay as real_replay
from profiler.traffic.synthetic import like
from tuner.candidate import Candidate, Verdict
from tuner.metrics import Metrics
from tuner.results import RunFolder
from tuner.search import confirm as module
from tuner.search.confirm import Plan, at_speed, confirm
from tuner.search.progress import SilentUi
from tuner.search.recommend import recommend
from tuner.search.rounds import engines
from tuner.slo import Limits, Slo


@dataclass
class Starter:
    """Starts fake engines and remembers what happened."""

    args: dict[str, float] = field(default_factory=dict)
    refuse: int | None = None
    log: list[str] = field(default_factory=list)

    def __call__(self, config: EngineConfig) -> Engine:
        budget = config.max_num_batched_tokens or 2048
        if budget == self.refuse:
            raise EngineStartError(f"budget {budget} is refused")
        self.log.append(f"start {budget}")
        engine = start_engine(EngineSpec("fake", "none", config, engine_args=dict(self.args)))
        stop = engine.stop

        def stop_and_log() -> None:
            self.log.append(f"stop {budget}")
            stop()

        engine.stop = stop_and_log  # type: ignore[method-assign]
        return engine


@pytest.fixture
def plan() -> Plan:
    trace = like(duration_s=5.0, rate_rps=3.0, seed=1).cap(
        max_prompt_tokens=500, max_output_tokens=8
    )
    return Plan(
        configs={
            "default": EngineConfig(max_model_len=4096),
            "candidate-1": EngineConfig(max_model_len=4096, max_num_batched_tokens=512),
            "candidate-2": EngineConfig(max_model_len=4096, max_num_batched_tokens=256),
        },
        trace=trace,
        slo=Slo(("default",), (Limits(ttft_p99_s=2.0, itl_p99_s=0.1),)),
        model=load_latency_model("example-8b"),
        reference_s=0.05,
        rounds=2,
        seed=0,
    )


def run(
    plan: Plan, folder: Path, start: Callable[[EngineConfig], Engine], *, keep_alive: bool = False
) -> list[Candidate]:
    with engines(start, keep_alive=keep_alive) as alive:
        return confirm(plan, RunFolder(folder), alive, SilentUi())


def test_rounds_alternate_and_one_engine_runs_at_a_time(plan: Plan, tmp_path: Path) -> None:
    start = Starter()
    run(plan, tmp_path, start)
    order = [line for line in start.log if line.startswith("start")]
    # the last engine of a round is the first of the next
    assert order == [f"start {b}" for b in (2048, 512, 256, 512, 2048)]
    alive = np.cumsum([1 if line.startswith("start") else -1 for line in start.log])
    assert alive.max() == 1
    assert alive[-1] == 0


def test_kept_alive_engines_start_once_and_all_stop(plan: Plan, tmp_path: Path) -> None:
    start = Starter()
    run(plan, tmp_path, start, keep_alive=True)
    assert start.log[:3] == ["start 2048", "start 512", "start 256"]
    assert sorted(start.log[3:]) == ["stop 2048", "stop 256", "stop 512"]


def test_every_candidate_is_predicted_measured_and_corrected(plan: Plan, tmp_path: Path) -> None:
    found = run(plan, tmp_path, Starter())
    assert [c.label for c in found] == ["default", "candidate-1", "candidate-2"]
    for candidate in found:
        assert candidate.predicted is not None and candidate.measured is not None
        assert candidate.predicted["num_requests"] == plan.rounds * plan.trace.num_requests
        assert candidate.measured["num_requests"] == 2 * plan.trace.num_requests
        assert candidate.resolved["max_model_len"] == 4096
        assert len(candidate.replays) == 2


def test_correction_scales_to_the_profiles_speed(plan: Plan, tmp_path: Path) -> None:
    for candidate in run(plan, tmp_path, Starter()):
        (speed,) = {round(r["speed"], 6) for r in candidate.replays}  # the fake does not drift
        assert candidate.corrected is not None and candidate.measured is not None
        for name in ("ttft_p50_s", "ttft_p99_s", "itl_p99_s", "tpot_mean_s"):
            expected = candidate.measured[name] * speed
            assert candidate.corrected[name] == pytest.approx(expected, rel=1e-4)


def test_at_speed_scales_from_the_intended_arrival() -> None:
    times = TokenTimes(
        intended_s=np.array([10.0]),
        sent_s=np.array([10.01]),
        token_s=[np.array([12.0, 13.0])],
        prompt_tokens=np.array([5]),
        failed=np.array([False]),
    )
    assert at_speed(times, 0.5).token_s[0].tolist() == [11.0, 11.5]
    assert times.token_s[0].tolist() == [12.0, 13.0]


def test_kept_replays_are_not_repeated(plan: Plan, tmp_path: Path) -> None:
    first, again = Starter(), Starter()
    before = run(plan, tmp_path, first)
    assert run(plan, tmp_path, again) == before
    assert again.log == []
    other = replace(plan, configs={**plan.configs, "candidate-2": EngineConfig(max_num_seqs=4)})
    run(other, tmp_path, again)
    assert len([line for line in again.log if line.startswith("start")]) == 1


def test_an_engine_that_dies_ends_the_run_and_keeps_the_rest(plan: Plan, tmp_path: Path) -> None:
    start = Starter()

    def deadly(config: EngineConfig) -> Engine:
        start.args = {"die_at_request": 2} if config.max_num_batched_tokens == 512 else {}
        return start(config)

    with pytest.raises(EngineDiedError):
        run(plan, tmp_path, deadly)
    assert start.log[-1] == "stop 512"
    resumed = Starter()
    assert all(c.measured for c in run(plan, tmp_path, resumed))
    assert resumed.log[0] == "start 512"  # the default's first replay was kept


def test_a_candidate_that_does_not_start_is_reported(plan: Plan, tmp_path: Path) -> None:
    found = run(plan, tmp_path, Starter(refuse=512))
    assert found[1].failure == "budget 512 is refused"
    assert found[1].measured is None
    assert found[0].measured is not None and found[2].measured is not None


def test_a_default_that_does_not_start_ends_the_run(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(EngineStartError):
        run(plan, tmp_path, Starter(refuse=2048))


class Late:
    """Replays that fell behind, a number of times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self, engine: Engine, trace: object, **options: object) -> Replay:
        seen = real_replay(engine, trace, **options)  # type: ignore[arg-type]
        self.left -= 1
        late = 9.0 if self.left >= 0 else 0.0
        return replace(seen, fidelity=Fidelity(late, late, late, 0.02))


def test_a_late_replay_is_repeated_once(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "replay", Late(1))
    assert all(c.measured for c in run(plan, tmp_path, Starter()))


def test_a_round_may_go_without_a_late_replay(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "replay", Late(2))
    found = run(plan, tmp_path, Starter())
    assert [len(c.replays) for c in found] == [1, 2, 2]
    assert found[0].measured is not None
    assert found[0].measured["num_requests"] == plan.trace.num_requests


def test_replays_that_stay_late_are_no_evidence(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "replay", Late(1000))
    with pytest.raises(EvidenceError):
        run(plan, tmp_path, Starter())


def scaled(candidate: Candidate, *, measured: float, corrected: float, goodput: float) -> Candidate:
    """`candidate` with its worst violations set, and its goodput."""
    assert candidate.measured is not None

    def changed(violation: float) -> dict[str, object]:
        assert candidate.measured is not None
        return {
            **candidate.measured,
            "violations": {"default.ttft_p99_s": violation},
            "goodput_rps": goodput,
        }

    return replace(candidate, measured=changed(measured), corrected=changed(corrected))


def test_verdicts(plan: Plan, tmp_path: Path) -> None:
    default, one, two = run(plan, tmp_path, Starter())
    missing = scaled(default, measured=0.3, corrected=0.3, goodput=1.0)
    good = scaled(one, measured=-0.1, corrected=-0.1, goodput=3.0)
    better = scaled(two, measured=-0.1, corrected=-0.1, goodput=4.0)
    found = recommend([missing, good, better])
    assert (found.verdict, found.chosen.label, found.misses) == (Verdict.MET, "candidate-2", {})
    best_default = scaled(default, measured=-0.5, corrected=-0.5, goodput=5.0)
    assert recommend([best_default, good]).verdict is Verdict.DEFAULT_IS_BEST
    worse = scaled(one, measured=0.5, corrected=-0.1, goodput=9.0)
    found = recommend([missing, worse])
    assert found.verdict is Verdict.NOTHING_MET
    assert found.chosen is missing
    assert found.misses == {"default.ttft_p99_s": pytest.approx(0.3)}


def test_a_slow_minute_does_not_decide_among_those_that_meet(plan: Plan, tmp_path: Path) -> None:
    default, one, two = run(plan, tmp_path, Starter())
    slow = scaled(one, measured=-0.1, corrected=-0.4, goodput=4.0)
    fast = scaled(two, measured=-0.3, corrected=-0.2, goodput=4.0)
    missing = scaled(default, measured=1.0, corrected=1.0, goodput=0.0)
    assert recommend([missing, slow, fast]).chosen is slow


def test_among_those_that_meet_the_likely_ones_come_first(plan: Plan, tmp_path: Path) -> None:
    default, one, two = run(plan, tmp_path, Starter())
    assert one.predicted is not None
    fast = scaled(one, measured=-0.3, corrected=-0.3, goodput=4.0)
    lucky = replace(fast, predicted={**one.predicted, "chance": {"all": 0.5}})
    steady = scaled(two, measured=-0.1, corrected=-0.1, goodput=3.0)
    missing = scaled(default, measured=1.0, corrected=1.0, goodput=0.0)
    assert recommend([missing, lucky, steady]).chosen is steady
    assert recommend([missing, fast, steady]).chosen is fast
    assert recommend([missing, lucky]).chosen is lucky  # measured, so it may be recommended


def test_predictions_of_the_replayed_traffic_have_intervals(plan: Plan, tmp_path: Path) -> None:
    alone = run(plan, tmp_path, Starter())[0].predicted
    found = run(replace(plan, windows=4), tmp_path, Starter())[0].predicted
    assert alone is not None and found is not None
    assert alone["intervals"] == {} == alone["chance"]
    assert found["num_windows"] == 4
    assert {**found, "intervals": {}, "chance": {}, "num_windows": 1} == alone
    low, high = found["intervals"]["ttft_p99_s"]
    assert low <= found["ttft_p99_s"] <= high
    assert found["chance"]["all"] in (0.0, 0.25, 0.5, 0.75, 1.0)


def test_metrics_of_a_candidate_can_be_read_back(plan: Plan, tmp_path: Path) -> None:
    (default, *_) = run(plan, tmp_path, Starter())
    assert default.measured is not None
    assert Metrics.from_dict(default.measured).to_dict() == default.measured
