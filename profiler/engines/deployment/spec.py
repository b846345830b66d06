"""What a deployment is made of."""

from __future__ import annotations

from dataclasses import dataclass

from profiler.engines.base import EngineSpec
from profiler.engines.deployment.routing import RULES
from profiler.errors import KnobError


@dataclass(frozen=True)
class ServerSpec:
    """One server. `engine.engine` is "vllm" or "rehearsal"; the transfer of KV is
    `engine.engine_args["kv_transfer_config"]`, a dictionary with vLLM's names."""

    engine: EngineSpec
    cores: tuple[int, ...] = ()
    """that all its processes stay on; none for all of the machine's"""


@dataclass(frozen=True)
class DeploymentSpec:
    """Give `aggregated`, or `prefill` and `decode`."""

    aggregated: tuple[ServerSpec, ...] = ()
    prefill: tuple[ServerSpec, ...] = ()
    decode: tuple[ServerSpec, ...] = ()
    rule: str = RULES[0]
    """how the proxy picks an aggregated or a prefill server"""
    decode_rule: str = RULES[0]
    """how it picks a decode server"""

    @property
    def servers(self) -> dict[str, ServerSpec]:
        """Name -> server, aggregated ones first, then prefill, then decode."""
        kinds = {"aggregated": self.aggregated, "prefill": self.prefill, "decode": self.decode}
        return {f"{kind} {i}": s for kind, specs in kinds.items() for i, s in enumerate(specs)}

    def check(self) -> None:
        """Raise `KnobError` when it cannot be started."""
        if bool(self.aggregated) == bool(self.prefill or self.decode):
            raise KnobError(
                "a deployment has aggregated servers, or prefill and decode servers, got "
                f"{len(self.aggregated)} aggregated, {len(self.prefill)} prefill and "
                f"{len(self.decode)} decode; name servers of one kind only"
            )
        if bool(self.prefill) != bool(self.decode):
            raise KnobError(
                f"prefill and decode servers need each other, got {len(self.prefill)} and "
                f"{len(self.decode)}; add at least one"
            )
        for name, rule in (("rule", self.rule), ("decode_rule", self.decode_rule)):
            if rule not in RULES:
                raise KnobError(
                    f"{name} of a deployment must be one of {', '.join(RULES)}, got {rule!r}"
                )
        for name, server in self.servers.items():
            moves = "kv_transfer_config" in server.engine.engine_args
            if moves != name.startswith(("prefill", "decode")):
                raise KnobError(
                    "prefill and decode servers need engine argument kv_transfer_config, "
                    f"aggregated ones may not have it; see {name}"
                )
