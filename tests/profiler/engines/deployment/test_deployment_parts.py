"""Parts of a deployment and of a rehearsed transfer that need no server."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from profiler.engines.base import EngineSpec
from profiler.engines.deployment.deployment import Deployment
from profiler.engines.deployment.routing import LEAST_REQUESTS, ROUND_ROBIN, RULES, Balancer
from profiler.engines.deployment.spec import DeploymentSpec, ServerSpec
from profiler.engines.rehearsal.link import Link
from profiler.engines.rehearsal.transfers import (
    Moment,
    TransferWriter,
    transfer_config,
    transfer_reader,
)
from profiler.errors import KnobError
from tuner.simulator.router import RULES as SIMULATED

WHOLE = ServerSpec(EngineSpec("rehearsal", "none"))
MOVES = transfer_config(role="kv_both", latency_s=1e-3, bytes_per_s=1e9, bytes_per_token=1e5)
PART = ServerSpec(EngineSpec("rehearsal", "none", engine_args={"kv_transfer_config": MOVES}))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (DeploymentSpec(), "got 0 aggregated, 0 prefill and 0 decode"),
        (DeploymentSpec((WHOLE,), (PART,), (PART,)), "servers of one kind only"),
        (DeploymentSpec(prefill=(PART,)), "prefill and decode servers need each other, got 1 and"),
        (DeploymentSpec((WHOLE,), rule="random"), "rule of a deployment must be one of round-rob"),
        (DeploymentSpec((PART,)), "see aggregated 0"),
        (DeploymentSpec(prefill=(PART,), decode=(PART, WHOLE)), "see decode 1"),
    ],
)
def test_a_deployment_that_cannot_be_is_refused(spec: DeploymentSpec, said: str) -> None:
    with pytest.raises(KnobError) as caught:
        Deployment(spec)
    assert said in str(caught.value)


def test_a_server_that_cannot_start_leaves_nothing(tmp_path: Path) -> None:
    """The first error is raised after every start has ended; here before any process."""
    bad = replace(WHOLE, engine=replace(WHOLE.engine, engine_args={}))
    with pytest.raises(KnobError, match="a rehearsal needs a latency model"):
        Deployment(DeploymentSpec(aggregated=(bad, bad)))


def test_rules_are_the_simulators() -> None:
    assert set(RULES) <= set(SIMULATED)


@pytest.mark.parametrize("rule", [ROUND_ROBIN, LEAST_REQUESTS])
def test_the_balancer_picks_as_the_rule_says(rule: str) -> None:
    rng = np.random.default_rng(1)
    balancer = Balancer(3, rule)
    open_: list[tuple[int, ExitStack]] = []
    for number in range(200):
        if open_ and rng.random() < 0.45:
            open_.pop(int(rng.integers(len(open_))))[1].close()
        loads = [sum(i == server for server, _ in open_) for i in range(3)]
        stack = ExitStack()
        picked = stack.enter_context(balancer.pick())
        least = min(range(3), key=lambda i: (loads[i], i))
        assert picked == (number % 3 if rule == ROUND_ROBIN else least)
        open_.append((picked, stack))


def test_a_request_is_outstanding_until_its_context_ends_in_error() -> None:
    balancer = Balancer(2, LEAST_REQUESTS)
    with pytest.raises(ValueError), balancer.pick() as i:
        assert i == 0
        raise ValueError
    with balancer.pick() as i:
        assert i == 0


def slow_ends(loads: list[tuple[float, float]], rate: float, latency_s: float) -> list[float]:
    """Ends of (start, bytes), by walking from one start or last byte to the next."""
    left = [size for _, size in loads]
    ends = [float("nan")] * len(loads)
    now = 0.0
    while any(x > 0 for x in left):
        on = [i for i, (start, _) in enumerate(loads) if start <= now and left[i] > 0]
        coming = [start for start, _ in loads if start > now]
        step = min([left[i] * len(on) / rate for i in on] + [s - now for s in coming])
        for i in on:
            left[i] -= step * rate / len(on)
            if left[i] < 1e-6:
                left[i] = 0.0
                ends[i] = now + step + latency_s
        now += step
    return ends


def test_the_link_ends_loads_as_its_slow_twin_does() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        starts = np.sort(rng.choice([0.0, 0.1, 0.25, 0.3, 0.7], 8) + rng.integers(0, 2, 8) * 0.01)
        loads = [(float(s), float(rng.integers(1, 50))) for s in starts]
        link, found = Link(0.02, 100.0, shared=True), {}
        polls = np.unique(np.concatenate([starts, np.linspace(0.0, 8.0, 500)]))
        for now in polls.tolist():
            found |= link.take_ended(now)
            for i in np.flatnonzero(starts == now):
                link.start(str(i), loads[i][1], now)
        expected = slow_ends(loads, 100.0, 0.02)
        assert [found[str(i)] for i in range(8)] == pytest.approx(expected)


def test_loads_do_not_share_a_link_of_their_own() -> None:
    link = Link(0.5, 10.0, shared=False)
    link.start("a", 20.0, 1.0)
    link.start("b", 10.0, 1.5)
    assert link.take_ended(2.9) == {}
    assert link.take_ended(3.0) == {"b": pytest.approx(3.0)}
    assert link.take_ended(9.0) == {"a": pytest.approx(3.5)}
    assert link.take_ended(9.0) == {}


def test_only_requests_of_a_replay_are_recorded(tmp_path: Path) -> None:
    steps = tmp_path / "steps.f64"
    reader, writer = transfer_reader(steps), TransferWriter(steps)
    writer.write("cmpl-3-17-0-ab12cd34", Moment.STARTED, 5.5)
    writer.write("cmpl-sentinel-0-ab12cd34", Moment.STARTED, 6.0)
    writer.write("1-2", Moment.LOADED, 6.5)
    assert reader.take().tolist() == [[3.0, 17.0, 1.0, 5.5]]
    assert reader.take().shape == (0, 4)
