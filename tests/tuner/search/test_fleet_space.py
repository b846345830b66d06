"""Axes that depend on each other, and plans that always fit the budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from fleet_problems import closed_form, fleet_problem, space

from tuner.fleet_plan import ROLES
from tuner.search.fleet_space import divide
from tuner.search.space import representable
from tuner.space_section import Axis

ALL = ("aggregated", "disaggregated", "mixed")


def draw(axes: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Random raw values, asked for as the search asks."""
    raw: dict[str, Any] = {}
    while new := {n: a for n, a in axes(raw).items() if n not in raw}:
        raw |= {name: value_of(axis, rng) for name, axis in new.items()}
    return raw


def value_of(axis: Axis, rng: np.random.Generator) -> Any:
    if axis.choices is not None:
        return axis.choices[rng.integers(len(axis.choices))]
    assert axis.low is not None and axis.high is not None
    return int(rng.integers(axis.low, axis.high + 1))


def divide_by_looking(num_gpus: int, sizes: Mapping[str, int], share: float) -> tuple[int, int]:
    """Twin of `divide` for two pools: of all pairs that fit, the nearest to the share with the
    most decode replicas, then as many prefill replicas as still fit."""
    tp_p, tp_d = sizes.values()
    pairs = [
        (p, d)
        for p in range(1, num_gpus + 1)
        for d in range(1, num_gpus + 1)
        if p * tp_p + d * tp_d <= num_gpus
    ]
    wanted = round(share * num_gpus / tp_p)
    p, d = min(pairs, key=lambda pair: (abs(pair[0] - wanted), -pair[1]))
    while (p + 1, d) in pairs:
        p += 1
    return p, d


def test_the_axes_follow_the_mode() -> None:
    of = space()
    assert list(of.axes({})) == ["mode"]
    assert list(of.axes({"mode": "aggregated"})) == [
        "mode", "aggregated.tp", "aggregated.max_num_batched_tokens", "aggregated.router",
    ]  # fmt: skip
    assert list(of.axes({"mode": "disaggregated"})) == [
        "mode", "prefill.tp", "prefill.gpus", "prefill.max_num_batched_tokens", "decode.tp",
        "decode.max_num_batched_tokens", "disaggregated.router", "disaggregated.decode_router",
    ]  # fmt: skip
    assert "gpus" in space(fewest=True).axes({"mode": "aggregated"})


@pytest.mark.parametrize("seed", range(60))
def test_every_plan_fits_and_uses_what_it_can(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tp = ((1,), (1, 2), (1, 4), (2, 4))[seed % 4]
    of = space(int(rng.integers(3 * tp[0], 20)), modes=ALL, tp=tp, fewest=bool(seed % 3 == 0))
    problem = closed_form(of)
    raw = draw(problem.axes, rng)
    plan = problem.candidate(raw)
    assert plan.mode == raw["mode"]
    assert tuple(pool.role for pool in plan.pools) == ROLES[plan.mode]
    assert all(pool.replicas >= 1 for pool in plan.pools)
    assert plan.num_gpus <= of.max_gpus
    if not of.fewest:  # nothing is left that another replica could use
        assert of.max_gpus - plan.num_gpus < min(pool.tp for pool in plan.pools)
    assert problem.candidate(raw) == plan


@pytest.mark.parametrize("seed", range(60))
def test_divide_is_what_looking_at_all_pairs_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = {"prefill": int(2 ** rng.integers(3)), "decode": int(2 ** rng.integers(3))}
    num_gpus = int(rng.integers(sum(sizes.values()), 24))
    share = float(rng.uniform(0, 1.2))
    counts = divide(num_gpus, sizes, {"prefill": share})
    assert tuple(counts.values()) == divide_by_looking(num_gpus, sizes, share)


@pytest.mark.parametrize("seed", range(20))
def test_raw_values_of_a_plan_make_it_again(seed: int) -> None:
    problem = closed_form(space(8, tp=(1, 2)))
    plan = problem.candidate(draw(problem.axes, np.random.default_rng(seed)))
    again = problem.candidate(problem.raw(plan))
    assert [(p.role, p.replicas, p.tp, p.settings) for p in again.pools] == [
        (p.role, p.replicas, p.tp, p.settings) for p in plan.pools
    ]
    assert (again.router, again.decode_router) == (plan.router, plan.decode_router)


def test_the_default_is_aggregated_on_all_gpus() -> None:
    problem = fleet_problem(space(8))
    (pool,) = problem.default.pools
    assert (pool.replicas, pool.tp, pool.settings) == (8, 1, {"max_model_len": 16384})
    assert problem.default.router == "round-robin"
    raw = problem.raw(problem.default)
    params, known = representable(problem.axes(raw), raw)
    assert params["aggregated.max_num_batched_tokens"] == 8192  # as the engine resolves it
    assert set(params) == set(known) == set(problem.axes(raw))


def test_without_an_aggregated_mode_the_default_is_split_evenly() -> None:
    problem = fleet_problem(space(8, modes=("disaggregated",)))
    assert problem.default.ratio == "4P:4D"
    assert problem.default.decode_router == "round-robin"


def test_sizes_that_exceed_the_budget_together_are_lowered() -> None:
    problem = closed_form(space(6, modes=("disaggregated",), tp=(1, 4)))
    raw = draw(problem.axes, np.random.default_rng(0))
    plan = problem.candidate(raw | {"prefill.tp": 4, "decode.tp": 4})
    assert [pool.tp for pool in plan.pools] == [1, 4]
    assert plan.num_gpus == 6
