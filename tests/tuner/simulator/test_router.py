"""What each rule of the router chooses, on fleets whose replicas can be followed by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.errors import SimulationError
from profiler.latency.params import plain_params
from profiler.outcomes import Status
from profiler.traffic.trace import Trace
from tuner.simulator import Fleet, Link, Pool, Router, simulate_fleet
from tuner.simulator.difftest.compare import MODEL

SECOND = dataclasses.replace(MODEL.with_frontend(0.0, 0.0), params=plain_params(constant_s=1.0))
"""every step takes one second: a request of n tokens alone is answered n seconds after it came"""
CONFIG = EngineConfig(
    max_num_batched_tokens=4096, max_num_seqs=64, max_model_len=4096, block_size=16
)
POOL = Pool(CONFIG, SECOND, 1000, 2)
ONE = dataclasses.replace(POOL, num_replicas=1)
LINK = Link(0.25, 1e12)


def trace_of(*requests: tuple[float, int, int]) -> Trace:
    """Arrival, prompt tokens and output tokens of each."""
    arrival_s, prompt, output = zip(*requests, strict=True)
    return Trace(np.array(arrival_s, dtype=float), np.array(prompt), np.array(output))


def replicas(trace: Trace, fleet: Fleet, **router: object) -> list[int]:
    """First replica of each request."""
    fleet = dataclasses.replace(fleet, router=Router(**router))  # type: ignore[arg-type]
    result = simulate_fleet(trace, fleet)
    assert (result.outcomes.status == Status.FINISHED).all()
    return [int(i) for i in result.replica]


def test_in_turn_over_all_first_replicas_of_a_mixed_fleet() -> None:
    trace = trace_of(*[(0.0, 10, 1)] * 7)
    fleet = Fleet((ONE, POOL), ONE, ONE, LINK)
    assert replicas(trace, fleet) == [0, 1, 2, 3, 0, 1, 2]


def test_fewest_requests_and_ties_to_the_lowest_number() -> None:
    trace = trace_of((0.0, 10, 9), (0.1, 10, 2), (0.2, 10, 9), (0.3, 10, 9), (2.5, 10, 1))
    assert replicas(trace, Fleet((POOL,)), rule="least-requests") == [0, 1, 0, 1, 1]


@pytest.mark.parametrize(("arrival_s", "chosen"), [(2.09, 0), (2.11, 1)])
def test_an_answer_frees_its_replica_when_it_reaches_the_router(
    arrival_s: float, chosen: int
) -> None:
    """The request on replica 1 runs from 0.1 to 2.1, that on replica 0 to 9."""
    trace = trace_of((0.0, 10, 9), (0.1, 10, 2), (arrival_s, 10, 1))
    assert replicas(trace, Fleet((POOL,)), rule="least-requests") == [0, 1, chosen]


def test_the_way_back_counts_too() -> None:
    slow = dataclasses.replace(POOL, model=SECOND.with_frontend(0.0, 0.5))
    trace = trace_of((0.0, 10, 9), (0.1, 10, 2), (2.5, 10, 1), (2.7, 10, 1))
    chosen = replicas(trace, Fleet((slow,)), rule="least-requests")
    assert chosen == [0, 1, 0, 1]


def test_fewest_prompt_tokens() -> None:
    trace = trace_of((0.0, 100, 9), (0.1, 30, 9), (0.2, 30, 9), (0.3, 30, 9), (0.4, 30, 9))
    assert replicas(trace, Fleet((POOL,)), rule="least-tokens") == [0, 1, 1, 1, 1]
    trace = trace_of((0.0, 60, 9), (0.1, 30, 9), (0.2, 30, 9), (0.3, 30, 9))
    assert replicas(trace, Fleet((POOL,)), rule="least-tokens") == [0, 1, 1, 0]


def test_two_drawn_ones_are_different_and_the_freer_one_is_taken() -> None:
    two = replicas(trace_of(*[(0.0, 10, 9)] * 6), Fleet((POOL,)), rule="power-of-two")
    assert two == [0, 1, 0, 1, 0, 1]
    many = dataclasses.replace(POOL, num_replicas=8)
    trace = trace_of(*[(0.0, 10, 9)] * 60)
    drawn = [replicas(trace, Fleet((many,)), rule="power-of-two", seed=s) for s in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def with_prefixes(trace: Trace, *hashes: list[int]) -> Trace:
    """The trace with prefix blocks of 16 tokens."""
    offsets = np.cumsum([0, *map(len, hashes)])
    return dataclasses.replace(
        trace,
        prefix_hashes=np.concatenate([np.array(h, dtype=np.int64) for h in hashes]),
        prefix_offsets=offsets.astype(np.int64),
        prefix_block_tokens=16,
    )


def test_the_longest_prefix_sent_before_then_the_fewest_requests() -> None:
    trace = trace_of(*[(0.1 * i, 48, 30) for i in range(6)])
    trace = with_prefixes(trace, [1, 2, 3], [7, 8, 9], [1, 2, 4], [7, 8, 5], [1, 2, 3], [6, 2, 3])
    assert replicas(trace, Fleet((POOL,)), rule="prefix-aware") == [0, 1, 0, 1, 0, 1]


def test_of_equally_long_prefixes_the_replica_with_fewer_requests() -> None:
    trace = with_prefixes(trace_of(*[(0.1 * i, 32, 30) for i in range(4)]), *[[1, 2]] * 4)
    guard = {"guard_requests": 1, "guard_ratio": 1.0}
    assert replicas(trace, Fleet((POOL,)), rule="prefix-aware", **guard) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("guard_requests", "guard_ratio", "chosen"),
    [(2, 1.0, [0, 0, 0, 1]), (3, 1.0, [0, 0, 0, 0]), (0, 9.0, [0, 1, 0, 1])],
)
def test_an_uneven_load_counts_more_than_prefixes(
    guard_requests: int, guard_ratio: float, chosen: list[int]
) -> None:
    """Uneven is more than so many ahead, and more than so many times as many: any is, of none."""
    trace = with_prefixes(trace_of(*[(0.1 * i, 32, 30) for i in range(4)]), *[[1, 2]] * 4)
    guard = {"guard_requests": guard_requests, "guard_ratio": guard_ratio}
    assert replicas(trace, Fleet((POOL,)), rule="prefix-aware", **guard) == chosen


def test_short_prompts_spill_over_to_an_idle_replica_only() -> None:
    trace = trace_of(
        (0.0, 10, 20),  # short: replica 0
        (0.1, 900, 20),  # long: replica 1
        (0.2, 10, 20),  # short, 0 is busy and 2 idle
        (0.3, 10, 20),  # short, all are busy: the short one
        (0.4, 900, 20),  # long: 1 and 2 have one each
        (0.5, 900, 20),
    )
    fleet = Fleet((ONE, POOL))
    assert replicas(trace, fleet, rule="prompt-length", short_tokens=100) == [0, 1, 2, 0, 1, 2]


def test_long_prompts_may_go_to_the_prefill_pool() -> None:
    trace = trace_of((0.0, 10, 2), (0.0, 900, 2), (0.1, 900, 2), (0.2, 100, 2))
    fleet = Fleet((ONE,), ONE, ONE, LINK)
    chosen = replicas(trace, fleet, rule="prompt-length", short_tokens=100)
    assert chosen == [0, 1, 1, 0]


def test_what_the_own_group_refuses_goes_to_the_other() -> None:
    short = dataclasses.replace(ONE, config=dataclasses.replace(CONFIG, max_model_len=64))
    trace = trace_of((0.0, 80, 2), (0.1, 10, 2), (0.2, 10, 2))
    chosen = replicas(trace, Fleet((short, ONE)), rule="prompt-length", short_tokens=100)
    assert chosen == [1, 0, 0]


def test_urgent_requests_have_reserved_replicas_and_spill_over() -> None:
    trace = trace_of(*[(0.1 * i, 10, 30) for i in range(6)])
    trace = dataclasses.replace(trace, priority=np.array([5, 0, 0, 5, 0, 5]))
    four = dataclasses.replace(POOL, num_replicas=4)
    assert replicas(trace, Fleet((four,)), rule="priority") == [1, 0, 2, 3, 0, 1]
    half = replicas(trace, Fleet((four,)), rule="priority", reserved_share=0.5)
    assert half == [2, 0, 1, 3, 0, 2]


@pytest.mark.parametrize("rule", ["round-robin", "least-requests", "prefix-aware"])
def test_a_long_request_goes_to_the_pool_that_takes_it(rule: str) -> None:
    short = dataclasses.replace(POOL, config=dataclasses.replace(CONFIG, max_model_len=64))
    trace = trace_of((0.0, 10, 2), (0.0, 90, 2), (0.0, 90, 2), (0.0, 5000, 2))
    fleet = Fleet((short, ONE), router=Router(rule))
    result = simulate_fleet(trace, fleet)
    np.testing.assert_array_equal(result.replica, [0, 2, 2, np.nan])
    assert result.outcomes.status.tolist() == [Status.FINISHED] * 3 + [Status.REJECTED]


def test_what_the_decode_pool_refuses_stays_with_the_aggregated_one() -> None:
    small = dataclasses.replace(ONE, num_kv_blocks=4)
    trace = trace_of((0.0, 10, 2), (0.0, 10, 90), (0.0, 10, 90), (0.0, 10, 2))
    assert replicas(trace, Fleet((ONE,), ONE, small, LINK)) == [0, 0, 0, 1]


def test_decode_replicas_by_load() -> None:
    """Prefills end at 1, 2, 3, 4 s; the second decode is over before the last of them."""
    trace = trace_of((0.0, 10, 30), (1.0, 10, 1), (2.0, 10, 30), (3.0, 10, 30))
    fleet = Fleet((), ONE, POOL, LINK, router=Router(decode_rule="least-requests"))
    result = simulate_fleet(trace, fleet)
    assert result.decode_replica.tolist() == [1, 2, 1, 2]
    assert result.prefill_s.tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("fleet", "router", "message"),
    [
        (Fleet(), {}, "a fleet needs a pool"),
        (Fleet((), ONE, ONE), {}, "needs prefill, decode and link"),
        (Fleet((ONE,)), {"rule": "prompt-length"}, "needs an aggregated pool for short prompts"),
        (Fleet((POOL,)), {"rule": "priority"}, "needs a trace with priorities"),
        (Fleet((dataclasses.replace(ONE, num_replicas=0),)), {}, "at least one replica, got 0"),
        (Fleet((ONE,) * 9), {}, "at most 8 pools, got 9"),
        (Fleet((), ONE, ONE, Link(0.0, 1.0)), {}, "must be above 0 s, got 0.0"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    fleet: Fleet, router: dict[str, str], message: str
) -> None:
    fleet = dataclasses.replace(fleet, router=Router(**router))  # type: ignore[arg-type]
    with pytest.raises(SimulationError, match=message):
        simulate_fleet(trace_of((0.0, 10, 1)), fleet)


def test_priorities_need_two_groups_of_replicas() -> None:
    trace = dataclasses.replace(trace_of((0.0, 10, 1)), priority=np.array([0]))
    with pytest.raises(SimulationError, match="more replicas than the 1 that it reserves"):
        simulate_fleet(trace, Fleet((ONE,), router=Router("priority")))
