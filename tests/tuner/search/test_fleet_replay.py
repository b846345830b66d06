"""From a simulated fleet to the deployment that rehearses it, and back to its prediction. No vLLM;
real servers are in tests/profiler/engines/deployment and in `make bench-fleet`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from profiler.collect.fleet_frontend import FleetFrontend, idle_frontend, with_outward
from profiler.engine_config import EngineConfig
from profiler.engines.deployment.deployment import Routes
from profiler.errors import EngineError, SimulationError
from profiler.latency.base import load_latency_model
from profiler.outcomes import TokenTimes
from profiler.steps import StepSamples
from tuner.search.fleet_replay import Deployed, as_deployed, rehearsed_fleet
from tuner.simulator.fleet import Fleet
from tuner.simulator.pool_build import Link, Pool
from tuner.simulator.router import Router

CONFIG = EngineConfig(max_num_batched_tokens=2048, max_num_seqs=64, max_model_len=4096)
MODEL = load_latency_model("example-8b")
POOL = Pool(CONFIG, MODEL, 5000)
SPLIT = Fleet(
    prefill=replace(POOL, num_replicas=2, kv_role="kv_producer"),
    decode=replace(POOL, num_kv_blocks=9000, kv_load_failure_policy="recompute"),
    link=Link(1e-3, 25e9, shared=False),
    kv_bytes_per_token=131_072.0,
)


def test_a_split_fleet_becomes_servers(tmp_path: Path) -> None:
    router = Router("least-requests", "round-robin")
    spec = rehearsed_fleet(replace(SPLIT, router=router), "models/x", tmp_path)
    assert (spec.rule, spec.decode_rule) == ("least-requests", "round-robin")
    assert list(spec.servers) == ["prefill 0", "prefill 1", "decode 0"]
    spec.check()
    first, last = spec.prefill[0].engine, spec.decode[0].engine
    assert (first.engine, first.model) == ("rehearsal", "models/x")
    assert first.config == replace(CONFIG, num_gpu_blocks_override=5000)
    assert last.config.num_gpu_blocks_override == 9000
    played = load_latency_model(first.engine_args["latency_model"])
    assert played.params.constant_s == MODEL.params.constant_s
    moves = first.engine_args["kv_transfer_config"]
    assert (moves["kv_role"], moves["kv_load_failure_policy"]) == ("kv_producer", "fail")
    assert last.engine_args["kv_transfer_config"]["kv_load_failure_policy"] == "recompute"
    extra = moves["kv_connector_extra_config"]
    assert extra["link"] == {"latency_s": 1e-3, "bytes_per_s": 25e9, "shared": False}
    assert extra["bytes_per_token"] == 131_072.0


def test_aggregated_pools_become_servers_without_transfers(tmp_path: Path) -> None:
    fleet = Fleet((replace(POOL, num_replicas=2), replace(POOL, num_kv_blocks=7000)))
    spec = rehearsed_fleet(fleet, "models/x", tmp_path)
    blocks = [s.engine.config.num_gpu_blocks_override for s in spec.aggregated]
    assert blocks == [5000, 5000, 7000]
    assert not any("kv_transfer_config" in s.engine.engine_args for s in spec.aggregated)
    assert not spec.prefill and not spec.decode
    spec.check()


@pytest.mark.parametrize(
    ("fleet", "said"),
    [
        (replace(SPLIT, router=Router("prefix-aware")), "got 'prefix-aware'; choose one of these"),
        (replace(SPLIT, aggregated=(POOL,)), "got both; confirm them one by one"),
        (replace(SPLIT, link=None), "needs a link between them, got none"),
        (replace(SPLIT, link=Link(1e-3, 25e9, overlap_layers=2)), "got a layer-wise one"),
    ],
)
def test_what_cannot_be_rehearsed_is_refused(fleet: Fleet, said: str, tmp_path: Path) -> None:
    with pytest.raises(SimulationError) as caught:
        rehearsed_fleet(fleet, "models/x", tmp_path)
    assert said in str(caught.value)


def deployed(blocks: dict[str, int]) -> dict[str, Deployed]:
    """Servers that resolved these numbers of KV blocks."""
    config = replace(CONFIG, block_size=16)
    return {name: Deployed(config, number) for name, number in blocks.items()}


def test_the_prediction_has_what_the_servers_resolved_and_the_front_end() -> None:
    frontend = FleetFrontend(inward_s=0.001, hop_s=0.002, outward_s=0.003)
    found = as_deployed(
        SPLIT, deployed({"prefill 0": 10, "prefill 1": 10, "decode 0": 20}), frontend
    )
    assert found.prefill is not None and found.decode is not None
    assert found.prefill.config.block_size == found.decode.config.block_size == 16
    assert (found.prefill.num_kv_blocks, found.decode.num_kv_blocks) == (10, 20)
    models = [found.prefill.model, found.decode.model]
    assert [(m.frontend_in_s, m.frontend_out_s) for m in models] == [(0.001, 0.002), (0.0, 0.003)]
    assert (found.prefill.num_replicas, found.link) == (2, SPLIT.link)

    fleet = Fleet((replace(POOL, num_replicas=2), POOL))
    names = {"aggregated 0": 10, "aggregated 1": 10, "aggregated 2": 30}
    whole = as_deployed(fleet, deployed(names), frontend).aggregated
    assert [pool.num_kv_blocks for pool in whole] == [10, 30]
    assert {(p.model.frontend_in_s, p.model.frontend_out_s) for p in whole} == {(0.001, 0.003)}


def steps_ending_at(ends_s: list[float]) -> StepSamples:
    """Steps of 1 s each, with a chunk each."""
    count = len(ends_s)
    columns: dict[str, Any] = dict.fromkeys(StepSamples.__dataclass_fields__, np.zeros(count))
    columns |= {"start_s": np.array(ends_s) - 1.0, "exec_s": np.ones(count)}
    return StepSamples(**{**columns, "prefill_tokens": np.ones(count, np.int64)})


def test_delivery_is_timed_from_the_steps_of_the_own_server() -> None:
    """Request 0 was answered by server 1, 1 by server 0, 2 by nobody."""
    times = TokenTimes(
        intended_s=np.zeros(3),
        sent_s=np.zeros(3),
        token_s=[np.array([5.3, 6.0]), np.array([5.5]), np.empty(0)],
        prompt_tokens=np.ones(3, np.int64),
        failed=np.array([False, False, True]),
        origin_s=100.0,
    )
    routes = Routes(np.array([1.0, 0.0, np.nan]), np.full(3, np.nan))
    steps = [steps_ending_at([102.0, 105.1]), steps_ending_at([104.9, 105.9])]
    found = with_outward(FleetFrontend(0.1, 0.2, 0.0), routes, times, steps)
    assert found.outward_s == pytest.approx((0.4 + 0.4) / 2)
    assert (found.inward_s, found.hop_s) == (0.1, 0.2)


def made_deployment(hop_s: float, failed: bool) -> Any:
    """An idle deployment: its first step starts 2 ms after each send."""

    def replay(requests: Any) -> TokenTimes:
        assert requests.prompt_tokens.tolist() == [777]
        none = np.zeros(1)
        return TokenTimes(none, none + 0.5, [none], none.astype(np.int64), none + failed > 0, 100.0)

    return SimpleNamespace(
        replay=replay,
        take_steps=lambda: steps_ending_at([101.502, 103.0]),
        handovers=SimpleNamespace(started_s=np.array([1.0 + hop_s]), held_s=np.array([1.0])),
        spec=SimpleNamespace(prefill=[1] if hop_s else []),
    )


@pytest.mark.parametrize("hop_s", [0.0, 0.004])
def test_delays_of_an_idle_front_end(hop_s: float) -> None:
    found = idle_frontend(made_deployment(hop_s, failed=False), 777)
    assert (found.inward_s, found.hop_s) == pytest.approx((0.002, hop_s))
    with pytest.raises(EngineError, match="failed a single request of 777 prompt tokens"):
        idle_frontend(made_deployment(hop_s, failed=True), 777)
