"""One prefill and two decode servers, rehearsed, over a slow link: a whole replay, then the proxy
restarted, a decode server killed in mid-transfer, and the prefill server killed before hand-off.

The tests use one deployment, each what the one before left of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.engines.base import EngineSpec, Requests
from profiler.engines.deployment.deployment import Deployment
from profiler.engines.deployment.spec import DeploymentSpec, ServerSpec
from profiler.engines.rehearsal.transfers import transfer_config, transfer_file
from profiler.engines.vllm.session import kill_session, session_members
from profiler.outcomes import Outcomes, Status
from profiler.replay import replay
from profiler.traffic.trace import Trace
from tuner.metrics import compute
from tuner.slo import Limits, Slo

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore::RuntimeWarning")]

MODEL = Path(__file__).parents[4] / "studies/models/tiny-llama"
CONFIG = EngineConfig(max_num_batched_tokens=512, max_model_len=4096, num_gpu_blocks_override=4000)
LINK_S = 1.5
MOVES = transfer_config(role="kv_both", latency_s=LINK_S, bytes_per_s=1e9, bytes_per_token=1000.0)
ARGUMENTS = {"latency_model": "example-8b", "kv_transfer_config": MOVES}
SERVER = ServerSpec(EngineSpec("rehearsal", str(MODEL), CONFIG, engine_args=ARGUMENTS))
SLO = Slo(("default",), (Limits(ttft_p99_s=60.0),))


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with Deployment(DeploymentSpec(prefill=(SERVER,), decode=(SERVER, SERVER))) as started:
        yield started


def trace_of(arrival_s: list[float], prompt: int, output: int) -> Trace:
    count = len(arrival_s)
    return Trace(np.array(arrival_s), np.full(count, prompt), np.full(count, output))


def replayed(
    deployment: Deployment, trace: Trace, fault: Callable[[], bool] = lambda: True
) -> Outcomes:
    """Outcomes of a replay; `fault` is called now and then until it says that it is done."""
    done: list[bool] = []

    def progress(finished: int, total: int) -> None:
        if not any(done):
            done.append(fault())

    outcomes = replay(deployment, trace, progress=progress).outcomes
    assert any(done)
    return outcomes


def members(deployment: Deployment) -> list[int]:
    """Ids of every process of the deployment."""
    sessions = [server.session for server in deployment.servers.values()]
    sessions.append(deployment.proxy.pid)
    return [p.pid for session in sessions for p in session_members(session)]


def test_prefill_load_and_decode(deployment: Deployment) -> None:
    assert deployment.facts.device == "1 prefill + 2 decode: rehearsed: one H200"
    deployment.take_steps()
    count = 6
    outcomes = replayed(deployment, trace_of([0.1 * i for i in range(count)], 700, 5))
    assert (outcomes.status == Status.FINISHED).all()
    assert (outcomes.output_tokens == 5).all()
    assert sorted(deployment.routes.server.tolist()) == [0.0] * 3 + [1.0] * 3
    moved = deployment.handovers
    load_s = moved.loaded_s - moved.started_s
    blocks = -(-700 // 16)
    assert load_s == pytest.approx(LINK_S + blocks * 16 * 1000.0 / 1e9, abs=2e-3)
    assert (moved.started_s > moved.held_s).all()
    assert (moved.released_s > moved.loaded_s).all()
    assert (outcomes.first_token_s > moved.loaded_s).all()
    steps = deployment.take_steps()
    # a decode server computes the last token of each prompt
    for server, tokens in ((0, 700 * count), (1, 3), (2, 3)):
        assert steps.prefill_tokens[steps.configuration == server].sum() == tokens
    assert steps.num_decodes.sum() == 4 * count


def test_a_restarted_proxy_fails_what_it_held(deployment: Deployment) -> None:
    def restart() -> bool:
        deployment.proxy.restart()
        return True

    trace = trace_of([0.0] * 4 + [1.0] * 2, 100, 3)  # the first four still load when it happens
    outcomes = replayed(deployment, trace, restart)
    assert outcomes.status.tolist() == [Status.FAILED] * 4 + [Status.FINISHED] * 2
    assert deployment.dead() == []


def test_a_dead_proxy_is_started_again(deployment: Deployment) -> None:
    kill_session(deployment.proxy.pid)
    assert deployment.dead() == ["proxy"]
    assert deployment.revive() == ["proxy"]
    outcomes = replayed(deployment, trace_of([0.0, 0.1], 100, 3))
    assert (outcomes.status == Status.FINISHED).all()


def test_a_decode_server_dies_in_mid_transfer(deployment: Deployment) -> None:
    victim = deployment.servers["decode 0"]
    moments = transfer_file(victim.steps_file)
    before = moments.stat().st_size

    def kill() -> bool:
        loads = moments.stat().st_size > before
        if loads:
            kill_session(victim.session)
        return loads

    outcomes = replayed(deployment, trace_of([0.05 * i for i in range(8)], 100, 3), kill)
    right = deployment.routes.server == 1.0
    assert 0 < right.sum() < 8
    assert (outcomes.status == np.where(right, Status.FINISHED, Status.FAILED)).all()
    assert (outcomes.output_tokens == np.where(right, 3, 0)).all()
    figures = compute(outcomes, SLO)
    assert figures.num_failed == (~right).sum()
    assert figures.ttft_p99_s == np.inf  # they are in the tail
    assert deployment.dead() == ["decode 0"]


def test_the_prefill_server_dies_before_hand_off(deployment: Deployment) -> None:
    victim = deployment.servers["prefill 0"]

    def kill() -> bool:
        kill_session(victim.session)
        return True

    outcomes = replayed(deployment, trace_of([0.0] * 40, 4000, 2), kill)  # 40 times 0.1 s
    at_prefill = np.isnan(deployment.handovers.held_s)
    assert at_prefill.sum() > 20
    assert (outcomes.status[at_prefill] == Status.FAILED).all()
    assert deployment.dead() == ["prefill 0", "decode 0"]


def test_nothing_is_left_behind(deployment: Deployment) -> None:  # keep this the last
    started = members(deployment)
    assert len(started) >= 3
    sessions = [server.session for server in deployment.servers.values()]
    sessions.append(deployment.proxy.pid)
    deployment.stop()
    deployment.stop()
    assert [session_members(session) for session in sessions] == [[]] * 4
    with pytest.raises(Exception, match="was stopped"):
        deployment.replay(Requests(np.zeros(1), np.array([10]), np.array([1])))
