"""Ratios, neighbours and the short list against counting by hand."""

from __future__ import annotations

import pytest
from made_verdict import aggregated, split

from tuner.fleet_plan import AGGREGATED, FleetPlan, PoolSetup
from tuner.verdict.options import Option, Side, neighbours, ratios, short_list, thinned


def slow_ratios(total: int, tp_prefill: int, tp_decode: int) -> list[str]:
    """Every P with the largest D that fits beside it."""
    found = []
    for p in range(1, total + 1):
        fitting = [d for d in range(1, total + 1) if p * tp_prefill + d * tp_decode <= total]
        if fitting:
            found.append(f"{p}:{max(fitting)}")
    return found


@pytest.mark.parametrize(("sizes", "tp"), [((1, 3), (1, 1)), ((2, 2), (2, 4)), ((3, 5), (4, 1))])
def test_ratios_fill_the_gpus(sizes: tuple[int, int], tp: tuple[int, int]) -> None:
    option = split(*sizes, tp)
    found = ratios(option)
    assert [o.ratio for o in found] == slow_ratios(option.plan.num_gpus, *tp)
    assert all(o.plan.num_gpus <= option.plan.num_gpus for o in found)
    assert option in found
    assert len({o.name for o in found}) == len(found)


@pytest.mark.parametrize("own", [1, 20, 63])
def test_thinned_keeps_both_ends_and_its_own(own: int) -> None:
    option = split(own, 64 - own)
    found = thinned(ratios(option), option, 8)
    assert 7 <= len(found) <= 8
    assert option in found
    assert (found[0].ratio, found[-1].ratio) == ("1:63", "63:1")
    assert thinned(ratios(split(1, 3)), split(1, 3), 8) == ratios(split(1, 3))


def test_neighbours() -> None:
    assert [o.ratio for o in neighbours(split(2, 2))] == ["1:3", "3:1"]
    assert [o.ratio for o in neighbours(split(1, 3))] == ["2:2"]
    assert neighbours(split(1, 1)) == []
    assert neighbours(aggregated()) == []
    assert ratios(aggregated()) == []


def test_a_mixed_fleet_is_disaggregated_and_keeps_its_aggregated_replicas() -> None:
    pools = (PoolSetup(AGGREGATED, 2), *split(2, 2).plan.pools)
    mixed = Option("mixed", FleetPlan(pools, "round-robin", "round-robin"))
    assert mixed.side is Side.DISAGGREGATED
    assert [o.ratio for o in ratios(mixed)] == ["1:3", "2:2", "3:1"]
    assert {o.plan.pools[0].replicas for o in ratios(mixed)} == {2}


def test_short_list_is_the_best_of_each_side_and_the_neighbours() -> None:
    again = Option("again", split(1, 3).plan)
    ranked = [split(1, 3), again, aggregated(), split(3, 1), aggregated(4, 512), split(2, 2)]
    names = [o.name for o in short_list(ranked, 2)]
    assert names == [
        "aggregated-4-2048",
        "aggregated-4-512",
        "split-1-3",
        "split-3-1",
        "split-1-3@2:2",
    ]
