"""Fleets against their slow twin, and what must hold of every one."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from fleet_cases import JITTERED, KINDS, DrawnFleet, draw_fleet
from fleet_reference import FleetReference

from profiler.outcomes import Outcomes, Status
from profiler.traffic.trace import Trace
from tuner.simulator import Fleet, FleetSimulation, Pool, simulate, simulate_fleet
from tuner.simulator.build import admissible
from tuner.simulator.difftest.cases import random_case
from tuner.simulator.fleet_kernel import run_fleet
from tuner.simulator.router import RULES


def run(drawn: DrawnFleet) -> FleetSimulation:
    return simulate_fleet(drawn.trace, drawn.fleet, fails=drawn.fails)


def cases() -> list[tuple[int, str, str, str]]:
    """Every rule in every kind of fleet that it fits."""
    drawn, rules = [], list(RULES)
    for seed in range(6):
        for k, kind in enumerate(KINDS):
            for i, rule in enumerate(rules):
                if not (kind == "split" and rule == "prompt-length"):
                    number = 1000 * seed + 100 * k + i
                    drawn.append((number, kind, rule, rules[(i + seed) % 4]))
    return drawn


@pytest.mark.parametrize(("seed", "kind", "rule", "decode_rule"), cases())
def test_a_fleet_does_what_its_twin_does(seed: int, kind: str, rule: str, decode_rule: str) -> None:
    """Everyone goes where the twin sends them, and everything happens at the same time, to the last
    bit."""
    drawn = draw_fleet(seed, kind, rule, decode_rule)
    result = run(drawn)
    reference = FleetReference(drawn.trace, drawn.fleet, drawn.fails)
    assert reference.endless == result.endless
    if result.endless:
        return
    twin = reference.requests
    same = np.testing.assert_array_equal
    same(result.replica, [r.first for r in twin])
    same(result.decode_replica, [np.nan if r.decode < 0 else r.decode for r in twin])
    same(result.prefill_s, [r.prefill_s for r in twin])
    same(result.load_start_s, [r.load_s[0] for r in twin])
    same(result.load_end_s, [r.load_s[1] for r in twin])
    same(result.outcomes.first_token_s, [r.tokens_s[0] for r in twin])
    same(result.outcomes.finish_s, [r.tokens_s[1] for r in twin])
    check_conservation(drawn, result)


def check_conservation(drawn: DrawnFleet, result: FleetSimulation) -> None:
    """Everyone is somewhere, and every token is counted once."""
    out, n = result.outcomes, drawn.trace.num_requests
    uses = result.aggregated + result.prefill
    assert sum(use.num_requests for use in uses) == n
    counted = np.bincount(result.replica.astype(np.int64), minlength=len(uses))
    assert counted.tolist() == [use.num_requests for use in uses]
    split = result.replica >= len(result.aggregated)
    assert sum(use.num_requests for use in result.decode) == split.sum()
    failed = out.status == Status.FAILED
    assert ((out.status == Status.FINISHED) | failed).all()
    assert (drawn.fails & split)[failed].all()
    assert (out.output_tokens[~failed] > 0).all()
    assert out.gap_weight.sum() == (out.output_tokens - 1)[~failed].sum()


def test_what_no_pool_takes_is_all_that_there_is() -> None:
    drawn = draw_fleet(0, "mixed", "least-tokens", "power-of-two")
    trace = Trace(np.zeros(2), np.array([5000, 6000]), np.array([1, 1]))
    result = simulate_fleet(trace, drawn.fleet)
    assert (result.outcomes.status == Status.REJECTED).all()
    assert np.isnan(result.replica).all()
    assert result.outcomes.gap_s.size == 0


def gaps_of(out: Outcomes) -> tuple[list[float], list[float]]:
    order = np.argsort(out.gap_s, kind="stable")
    return out.gap_s[order].tolist(), out.gap_weight[order].sum(axis=1).tolist()


@pytest.mark.parametrize("seed", range(8))
def test_aggregated_replicas_in_turn_are_engines_of_their_own(seed: int) -> None:
    case = random_case(seed, speculative=False)
    pool = Pool(case.config, JITTERED, case.num_kv_blocks, 1 + seed % 3)
    limit = np.array([0.02])
    whole = simulate_fleet(case.trace, Fleet((pool,)), itl_limit_s=limit, seed=5)
    taken = np.flatnonzero(admissible(case.trace, case.config, case.num_kv_blocks))
    finish_s, slow = np.full(case.trace.num_requests, np.nan), 0
    steps = []
    for i in range(pool.num_replicas):
        mine = taken[i :: pool.num_replicas]
        part = dataclasses.replace(case.trace.take(mine), arrival_s=case.trace.arrival_s[mine])
        alone = simulate(
            part, case.config, JITTERED, num_kv_blocks=case.num_kv_blocks, itl_limit_s=limit,
            seed=5 + i,
        )  # fmt: skip
        if alone.endless:
            assert whole.endless
            return
        finish_s[mine] = alone.outcomes.finish_s
        slow += int(alone.outcomes.num_slow_gaps.sum())
        steps.append((alone.num_steps, alone.num_preemptions, alone.cached_tokens))
    np.testing.assert_array_equal(whole.outcomes.finish_s, finish_s)
    assert whole.outcomes.num_slow_gaps.sum() == slow
    uses = [(use.num_steps, use.num_preemptions, use.cached_tokens) for use in whole.aggregated]
    assert uses == steps


def test_the_same_seed_gives_the_same_bytes_from_one_compiled_kernel() -> None:
    drawn = draw_fleet(3, "mixed", "power-of-two", "least-tokens")
    one, two = run(drawn).outcomes, run(drawn).outcomes
    assert one.finish_s.tobytes() == two.finish_s.tobytes()
    assert gaps_of(one) == gaps_of(two)
    assert len(getattr(run_fleet, "signatures", [0])) == 1


def test_a_long_run_drains_its_logs_and_finds_more_slots() -> None:
    """Far more gaps than a log holds, and one replica that gets nearly everything."""
    base = random_case(0, speculative=False)
    config = dataclasses.replace(
        base.config, max_model_len=4096, max_num_seqs=4, max_num_active_seqs=None, block_size=16
    )
    n = 400
    trace = Trace(np.arange(n) * 1e-3, np.full(n, 100), np.full(n, 700))
    few = dataclasses.replace(config, max_model_len=64)
    fleet = Fleet((Pool(few, JITTERED, 200, 3), Pool(config, JITTERED, 400)))
    result = simulate_fleet(trace, fleet)
    assert [use.num_requests for use in result.aggregated] == [0, 0, 0, n]
    assert result.outcomes.gap_weight.sum() == n * 699
    alone = simulate(trace, config, JITTERED, num_kv_blocks=400, seed=3).outcomes
    np.testing.assert_array_equal(result.outcomes.finish_s, alone.finish_s)
    np.testing.assert_allclose(
        np.quantile(result.outcomes.gap_s, 0.5), np.quantile(alone.gap_s, 0.5), rtol=1e-3
    )
