"""`Deployment`: what is to run, in no target's own terms. Every render reads this and nothing else.

study results ──deployment_of──▶ Deployment ──render, one per target──▶ Rendering ──▶ bundle
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from packaging.version import InvalidVersion, Version

from profiler.errors import ExportError
from profiler.knobs import KNOBS
from profiler.versions import has_knob
from tuner.simulator.router import Router

TENSOR_PARALLEL = "tensor-parallel-size"
KV_TRANSFER = "kv-transfer-config"
UNKNOWN = "unknown-version"
"""where the run's engine is no vLLM; as a tag of an image it cannot be pulled"""
PORT = 8000
"""that an engine listens on, where the target does not say otherwise"""


class Role(StrEnum):
    """What the replicas of a pool do."""

    AGGREGATED = "aggregated"
    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True)
class KvTransfer:
    """How a pool hands KV over; vLLM's `KVTransferConfig` and the environment that goes with it."""

    connector: str = "NixlConnector"
    kv_role: str = "kv_both"
    """kv_producer, kv_consumer or kv_both (what vLLM's NIXL examples use on both sides)"""
    load_failure_policy: str = "fail"
    """fail, or recompute"""
    extra: dict[str, Any] = field(default_factory=dict)
    """`kv_connector_extra_config`"""
    side_channel_port: int = 5600
    """of the handshake; each rank of a replica adds its number"""

    def config(self) -> dict[str, Any]:
        """The value of `--kv-transfer-config`."""
        named: dict[str, Any] = {
            "kv_connector": self.connector,
            "kv_role": self.kv_role,
            "kv_load_failure_policy": self.load_failure_policy,
        }
        return named | ({"kv_connector_extra_config": self.extra} if self.extra else {})


@dataclass(frozen=True)
class EnginePool:
    """Replicas that are started alike."""

    label: str
    """unique in the deployment; a part of object and file names: a-z, 0-9 and dashes"""
    role: Role = Role.AGGREGATED
    replicas: int = 1
    num_gpus: int = 1
    """of one replica; 0 for an engine on processors"""
    flags: dict[str, Any] = field(default_factory=dict)
    """server flag without its dashes in front -> value, false included; the model is not one"""
    environment: dict[str, str] = field(default_factory=dict)
    kv_transfer: KvTransfer | None = None

    @property
    def tensor_parallel(self) -> int:
        return int(self.flags.get(TENSOR_PARALLEL, 1))


@dataclass(frozen=True)
class Deployment:
    """One model, served by one or several pools of replicas behind a router."""

    name: str
    """of the deployment's objects: a-z, 0-9 and dashes, at most 40 characters"""
    model: str
    """name of a published model, or an absolute path of a folder"""
    engine_version: str
    """of vLLM"""
    pools: tuple[EnginePool, ...]
    router: Router = field(default_factory=Router)
    namespace: str = "default"
    evidence: tuple[str, ...] = ()
    """comment lines for the head of every file"""
    left_out: tuple[tuple[str, Any, str], ...] = ()
    """(setting, value, why): of the study, but of no deployment"""

    def __post_init__(self) -> None:
        roles = [pool.role for pool in self.pools]
        if not roles or (Role.PREFILL in roles) != (Role.DECODE in roles):
            raise ExportError(
                "a deployment has aggregated pools, or a prefill and a decode pool; got "
                f"{', '.join(roles) or 'none'}; add the other one"
            )
        if Role.PREFILL in roles and len(roles) != 2:
            raise ExportError(
                f"a prefill:decode deployment has exactly these two pools, got {', '.join(roles)}; "
                "pick a trial of another mode (--pick), or take mixed out of fleet.modes"
            )
        for pool in self.pools:
            _check_pool(pool)

    @property
    def is_pd(self) -> bool:
        """Whether prefill and decode are separate pools."""
        return any(pool.role is Role.PREFILL for pool in self.pools)

    @property
    def num_replicas(self) -> int:
        return sum(pool.replicas for pool in self.pools)

    @property
    def has_choice(self) -> bool:
        """Whether a router has anything to do."""
        return self.is_pd or self.num_replicas > 1

    @property
    def has_gpus(self) -> bool:
        return any(pool.num_gpus for pool in self.pools)

    @property
    def model_is_folder(self) -> bool:
        return self.model.startswith("/")

    @property
    def image(self) -> str:
        """vLLM's own image of this version."""
        name = "vllm/vllm-openai" if self.has_gpus else "vllm/vllm-openai-cpu"
        public = self.engine_version.split("+")[0]
        if re.fullmatch(r"\d+\.\d+", public):  # of a prediction; images have three numbers
            public += ".0"
        return f"{name}:{UNKNOWN}" if public == UNKNOWN else f"{name}:v{public}"

    def pool_with(self, role: Role) -> EnginePool:
        """The only pool of a prefill:decode deployment with this role."""
        return next(pool for pool in self.pools if pool.role is role)

    def lacks(self, flag: str) -> bool:
        """Whether this vLLM is known not to have `flag`."""
        name = _KNOB_OF_FLAG.get(flag)
        try:
            return name is not None and not has_knob(name, Version(self.engine_version))
        except InvalidVersion:
            return False

    def arguments(self, pool: EnginePool) -> dict[str, Any]:
        """Every server flag of `pool` that this vLLM has -> value, KV transfer last."""
        kept = {f: v for f, v in pool.flags.items() if v is not None and not self.lacks(f)}
        return kept | ({KV_TRANSFER: pool.kv_transfer.config()} if pool.kv_transfer else {})


_KNOB_OF_FLAG = {knob.flag.removeprefix("--"): knob.name for knob in KNOBS.values()}


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _check_pool(pool: EnginePool) -> None:
    if pool.replicas < 1:
        raise ExportError(
            f"pool {pool.label} must have at least one replica, got {pool.replicas}; leave it out "
            "or give it one"
        )
    if pool.role is not Role.AGGREGATED and pool.kv_transfer is None:
        raise ExportError(
            f"pool {pool.label} must say how KV is handed over, got nothing; give it kv_transfer"
        )
    for name in pool.environment:
        if not _VARIABLE.fullmatch(name):
            raise ExportError(
                f"an environment variable must be letters, digits and underscores, got {name!r}; "
                "rename it in engine.environment"
            )


def single_pool(deployment: Deployment, target: str) -> EnginePool:
    """The only pool of an aggregated deployment. Raises `ExportError` when there are several."""
    if len(deployment.pools) > 1:
        raise ExportError(
            f"{target} serves one aggregated pool per object, got {len(deployment.pools)}; export "
            "to kubernetes or compose, or tune a fleet of equal replicas"
        )
    return deployment.pools[0]
