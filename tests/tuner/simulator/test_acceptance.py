"""Speculative decoding at the Python boundary: how acceptance is given, and what it yields."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.errors import SimulationError
from profiler.latency.base import load_latency_model
from profiler.traffic.trace import Trace
from tuner.simulator import Simulation, simulate
from tuner.simulator.acceptance import build_acceptance, build_drafts
from tuner.simulator.build import build_limits

MODEL = dataclasses.replace(load_latency_model("example-8b"), residuals=np.ones(1))
CONFIG = EngineConfig(
    max_num_batched_tokens=256,
    max_num_seqs=8,
    max_model_len=1024,
    block_size=16,
    num_speculative_tokens=3,
)
ONE = Trace.build([0.0], [100], [9])


def run(trace: Trace, acceptance: Any, config: EngineConfig = CONFIG, **more: Any) -> Simulation:
    return simulate(trace, config, MODEL, num_kv_blocks=500, acceptance=acceptance, **more)


@pytest.mark.parametrize("overlapped", [False, True])
def test_accepted_drafts_appear_together(overlapped: bool) -> None:
    result = run(ONE, 1.0, dataclasses.replace(CONFIG, async_scheduling=overlapped))
    outcomes = result.outcomes
    assert result.num_steps == 1 + 2 + overlapped  # asynchronous: one step is for nothing
    assert result.num_accepted == result.num_drafts == 3 * (result.num_steps - 1)
    zero = outcomes.gap_s == 0.0
    assert outcomes.gap_weight[zero].sum() == 6
    assert outcomes.gap_weight[~zero].sum() == 2
    spent = (outcomes.gap_s * outcomes.gap_weight[:, 0]).sum()
    assert spent == pytest.approx(outcomes.finish_s[0] - outcomes.first_token_s[0])


def test_rejected_drafts_cost_time_and_yield_nothing() -> None:
    plain = simulate(
        ONE, dataclasses.replace(CONFIG, num_speculative_tokens=0), MODEL, num_kv_blocks=500
    )
    none = run(ONE, 0.0)
    assert none.num_steps == plain.num_steps
    assert (none.num_accepted, plain.num_drafts) == (0, 0)
    assert none.outcomes.finish_s[0] >= plain.outcomes.finish_s[0]


@pytest.mark.parametrize("rate", [0.3, 0.7, 0.9])
def test_tokens_per_step_are_those_of_leviathan(rate: float) -> None:
    """(1 - p ** (k + 1)) / (1 - p) tokens per verification: equation 1 of Leviathan et al. 2023."""
    trace = Trace.build(np.zeros(200), np.full(200, 10), np.full(200, 200))
    result = run(trace, rate)
    verifications = result.num_drafts / 3
    expected = (1 - rate**4) / (1 - rate)
    assert 1 + result.num_accepted / verifications == pytest.approx(expected, rel=0.02)


def test_a_distribution_of_accepted_drafts_is_kept() -> None:
    chances = np.array([0.1, 0.2, 0.3, 0.4])
    acceptance = build_acceptance(ONE, 3, chances, 5)
    counts = [acceptance.count(0, turn, 3) for turn in range(50_000)]
    assert np.bincount(counts) / 50_000 == pytest.approx(chances, abs=0.01)
    assert max(acceptance.count(0, turn, 1) for turn in range(100)) == 1


def test_traffic_may_carry_a_rate_per_request() -> None:
    rates = dataclasses.replace(
        Trace.build([0.0, 0.0], [50, 50], [41, 41]), acceptance_rate=np.array([0.0, 1.0])
    )
    never, always = run(rates, None).outcomes.finish_s
    assert never > 3 * always
    same = run(rates, 1.0).outcomes.finish_s
    assert same[0] == same[1]


def test_the_same_seed_gives_the_same_luck() -> None:
    trace = Trace.build(np.arange(30) / 50, np.full(30, 200), np.full(30, 60))
    first, again, other = (run(trace, 0.6, seed=s).outcomes.finish_s for s in (1, 1, 2))
    assert first.tobytes() == again.tobytes() != other.tobytes()


def test_refused_requests_do_not_change_the_luck_of_the_others() -> None:
    trace = Trace.build(np.zeros(3), np.full(3, 10), np.full(3, 10))
    acceptance = build_acceptance(trace, 3, 0.5, 0)
    limits = build_limits(CONFIG, 500)
    drafts = build_drafts(acceptance, np.array([False, True, True]), limits, 1)
    assert drafts.start.tolist() == acceptance.start[1:].tolist()
    assert len(set(acceptance.start.tolist())) == 3


@pytest.mark.parametrize(
    ("acceptance", "words"),
    [
        (None, r"needs to know how many drafts are accepted; give .*--acceptance"),
        (1.5, r"must be in \[0, 1\], got 1.5"),
        (float("nan"), r"must be in \[0, 1\]"),
        ([0.5, 0.5], r"chances of 0 to 3 accepted drafts .*got 2 numbers"),
        ([0.5, 0.5, 0.5, 0.5], r"sum to 1"),
        ([1.5, -0.5, 0.0, 0.0], r"at least 0 and sum to 1"),
    ],
)
def test_what_is_no_acceptance_is_refused(acceptance: Any, words: str) -> None:
    with pytest.raises(SimulationError, match=words):
        run(ONE, acceptance)


def test_long_runs_keep_every_token() -> None:
    """More gaps than the log holds at first, in steps without a request in lockstep."""
    trace = Trace.build(np.zeros(40), np.full(40, 10), np.full(40, 900))
    outcomes = run(trace, 0.5, dataclasses.replace(CONFIG, max_num_seqs=40)).outcomes
    assert outcomes.gap_weight.sum() == 40 * 899
