"""One-core engines and their KV connector: settings."""

from __future__ import annotations

import os

import pytest

from profiler.engines.base import EngineSpec
from profiler.engines.deployment import one_core
from profiler.engines.deployment.one_core import one_core_pair, one_core_replicas, one_core_spec
from profiler.errors import KnobError, MissingExtraError

SPEC = EngineSpec("vllm", "model", engine_args={"enforce_eager": False}, environment={"A": "b"})


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 5})


def test_a_one_core_engine_computes_in_one_thread() -> None:
    made = one_core_spec(SPEC)
    assert made.engine_args == {"distributed_executor_backend": "uni", "enforce_eager": False}
    assert made.environment["OMP_NUM_THREADS"] == "1"
    assert made.environment["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"
    assert made.environment["A"] == "b"
    assert one_core_spec(made).environment == made.environment


@pytest.mark.usefixtures("four_cores")
def test_cores_are_not_shared() -> None:
    made = one_core_replicas(SPEC, [1, 5])
    made.check()
    assert [server.cores for server in made.servers.values()] == [(1,), (5,)]
    for cores in ([1, 1], [3]):
        with pytest.raises(KnobError, match=r"a core of its own out of \[0, 1, 2, 5\]"):
            one_core_replicas(SPEC, cores)


@pytest.mark.usefixtures("four_cores")
def test_a_missing_nixl_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_core, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"install stallfree\[nixl\]"):
        one_core_pair(SPEC, (0, 1))


@pytest.mark.usefixtures("four_cores")
def test_a_pair_moves_kv_by_our_connector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_core, "find_spec", lambda name: None if name == "torch" else object())
    made = one_core_pair(SPEC, (0, 2))
    made.check()
    prefill, decode = made.servers.values()
    assert (prefill.cores, decode.cores) == ((0,), (2,))
    roles = [s.engine.engine_args["kv_transfer_config"]["kv_role"] for s in (prefill, decode)]
    assert roles == ["kv_producer", "kv_consumer"]
    ports = {s.engine.environment["VLLM_NIXL_SIDE_CHANNEL_PORT"] for s in (prefill, decode)}
    assert len(ports) == 2
