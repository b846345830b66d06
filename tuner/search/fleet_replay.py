"""A fleet rehearsed: real vLLM servers behind the proxy at GPU speed, beside its prediction.

Everything that this machine adds to the fleet's own time is measured and given to the prediction:
the front end (HTTP, proxy, servers, client). Steps that end late, because two cores carry all the
servers, are counted, and a replay with too many of them is no evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from profiler.collect.fleet_frontend import FleetFrontend, idle_frontend, with_outward
from profiler.engine_config import EngineConfig
from profiler.engines.base import EngineSpec, Progress
from profiler.engines.deployment.deployment import Deployment, Handovers, Routes
from profiler.engines.deployment.routing import RULES
from profiler.engines.deployment.spec import DeploymentSpec, ServerSpec
from profiler.engines.rehearsal import REHEARSAL
from profiler.engines.rehearsal.spec import LATENCY_MODEL
from profiler.engines.rehearsal.transfers import transfer_config
from profiler.errors import SimulationError
from profiler.replay import DEFAULT_MAX_LATE_S, Replay, replay
from profiler.traffic.trace import Trace
from tuner.simulator.fleet import Fleet, FleetSimulation, simulate_fleet
from tuner.simulator.pool_build import Pool
from tuner.simulator.state import FloatArray


@dataclass(frozen=True)
class FleetReplay:
    """One replay on a rehearsed fleet, and what was predicted for it."""

    seen: Replay
    routes: Routes
    handovers: Handovers
    frontend: FleetFrontend
    predicted: FleetSimulation


@dataclass(frozen=True)
class Deployed:
    """What a started server says of itself, as far as its prediction needs it."""

    resolved: EngineConfig
    """every setting"""
    num_kv_blocks: int


def require_rehearsable(fleet: Fleet) -> None:
    """Raise `SimulationError` when the proxy does not know the fleet's router, the fleet is a mixed
    one, it has no link, or one that moves KV layer by layer."""
    router = fleet.router
    for rule in (router.rule, router.decode_rule):
        if rule not in RULES:
            raise SimulationError(
                f"fleets are rehearsed with the router rules {', '.join(RULES)}, got {rule!r}; "
                "choose one of these to confirm"
            )
    if fleet.aggregated and fleet.prefill is not None:
        raise SimulationError(
            "fleets are rehearsed with aggregated replicas or with prefill and decode pools, "
            "got both; confirm them one by one"
        )
    if fleet.prefill is not None and fleet.link is None:
        raise SimulationError(
            "a fleet with prefill and decode pools needs a link between them, got none; give link"
        )
    if fleet.link is not None and fleet.link.overlap_layers > 1:
        raise SimulationError(
            "fleets are rehearsed over links that move KV after the prefill, got a layer-wise one; "
            "take layerwise out to confirm"
        )


def rehearsed_fleet(fleet: Fleet, model: str, folder: Path) -> DeploymentSpec:
    """The deployment that rehearses `fleet`.

    Parameters
    ----------
    fleet
        Aggregated pools, or a prefill and a decode pool.
    model
        Folder with the config.json of the model; no weights are needed.
    folder
        Where the pools' latency models are written.

    Raises
    ------
    SimulationError
        See `require_rehearsable`.
    """
    require_rehearsable(fleet)
    whole = [
        server
        for i, pool in enumerate(fleet.aggregated)
        for server in _servers(pool, model, folder / f"aggregated-{i}", {})
    ]
    prefill, decode = (
        _servers(pool, model, folder / kind, {"kv_transfer_config": _transfer(fleet, pool)})
        if pool is not None
        else ()
        for kind, pool in (("prefill", fleet.prefill), ("decode", fleet.decode))
    )
    router = fleet.router
    return DeploymentSpec(tuple(whole), prefill, decode, router.rule, router.decode_rule)


def _servers(
    pool: Pool, model: str, folder: Path, arguments: dict[str, Any]
) -> tuple[ServerSpec, ...]:
    """One server for each replica of a pool, all alike."""
    folder.mkdir(parents=True, exist_ok=True)
    pool.model.save(folder / "step_time.json")
    arguments = {LATENCY_MODEL: str(folder), **arguments}
    config = replace(pool.config, num_gpu_blocks_override=pool.num_kv_blocks)
    server = ServerSpec(EngineSpec(REHEARSAL, model, config, engine_args=arguments))
    return (server,) * pool.num_replicas


def _transfer(fleet: Fleet, pool: Pool) -> dict[str, Any]:
    """vLLM's `kv_transfer_config` of a prefill or decode pool."""
    link = fleet.link
    assert link is not None  # see require_rehearsable
    return transfer_config(
        role=pool.kv_role,
        policy=pool.kv_load_failure_policy,
        latency_s=link.latency_s,
        bytes_per_s=link.bytes_per_s,
        bytes_per_token=fleet.kv_bytes_per_token,
        shared=link.shared,
    )


def rehearse_fleet(  # noqa: PLR0913  # all but the first three are options by keyword
    deployment: Deployment,
    fleet: Fleet,
    trace: Trace,
    *,
    itl_limit_s: FloatArray | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    max_late_s: float = DEFAULT_MAX_LATE_S,
) -> FleetReplay:
    """Replay `trace` on a started deployment of `rehearsed_fleet`, and predict the same.

    What has died since the last replay is started again first. Options as of
    `profiler.replay.replay`, which see for what is raised; whether it is evidence is for
    `FleetReplay.seen.require_evidence`.
    """
    deployment.revive()
    idle = idle_frontend(deployment, round(float(trace.prompt_tokens.mean())))
    seen = replay(
        deployment,
        trace,
        itl_limit_s=itl_limit_s,
        seed=seed,
        progress=progress,
        max_late_s=max_late_s,
    )
    last = [n for n in deployment.servers if not n.startswith("prefill")]
    steps = [deployment.take_steps_of(name) for name in last]
    frontend = with_outward(idle, deployment.routes, seen.times, steps)
    predicted = simulate_fleet(
        trace,
        as_deployed(fleet, deployed_of(deployment), frontend),
        itl_limit_s=itl_limit_s,
        seed=seed,
    )
    return FleetReplay(seen, deployment.routes, deployment.handovers, frontend, predicted)


def deployed_of(deployment: Deployment) -> dict[str, Deployed]:
    """Server's name -> what it says of itself."""
    return {
        name: Deployed(server.facts.resolved, server.facts.num_kv_blocks)
        for name, server in deployment.servers.items()
    }


def as_deployed(fleet: Fleet, servers: Mapping[str, Deployed], frontend: FleetFrontend) -> Fleet:
    """`fleet` with the settings that its `servers` resolved, and with the measured front end."""

    def deployed(pool: Pool, name: str, inward_s: float, outward_s: float) -> Pool:
        said = servers[name]
        model = pool.model.with_frontend(inward_s, outward_s)
        return replace(pool, config=said.resolved, num_kv_blocks=said.num_kv_blocks, model=model)

    inward, hop, outward = frontend.inward_s, frontend.hop_s, frontend.outward_s
    aggregated, number = [], 0
    for pool in fleet.aggregated:
        aggregated.append(deployed(pool, f"aggregated {number}", inward, outward))
        number += pool.num_replicas
    if fleet.prefill is None or fleet.decode is None:
        return replace(fleet, aggregated=tuple(aggregated))
    return replace(
        fleet,
        prefill=deployed(fleet.prefill, "prefill 0", inward, hop),
        decode=deployed(fleet.decode, "decode 0", 0.0, outward),
    )
