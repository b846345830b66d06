"""`FleetPlan`: what a search of fleets chooses. Plain data, as trials and results keep it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

AGGREGATED = "aggregated"
"""a mode: every replica does both phases; and the role of such replicas"""
DISAGGREGATED = "disaggregated"
"""a mode: a prefill and a decode pool, with KV transfer between them"""
MIXED = "mixed"
"""a mode: aggregated replicas beside a prefill and a decode pool"""
PREFILL, DECODE = "prefill", "decode"
"""roles of the other pools"""
ROLES = {
    AGGREGATED: (AGGREGATED,),
    DISAGGREGATED: (PREFILL, DECODE),
    MIXED: (AGGREGATED, PREFILL, DECODE),
}
"""mode -> roles of its pools"""
MOST_REHEARSED = 4
"""replicas of a fleet that can be rehearsed: so many real engines two cores carry"""


@dataclass(frozen=True)
class PoolSetup:
    """Replicas of one kind, and their settings."""

    role: str
    replicas: int
    tp: int = 1
    """GPUs per replica"""
    system: str = ""
    """name of the GPU system in the published data; "" where the profile was measured"""
    settings: dict[str, Any] = field(default_factory=dict)
    """settings that are not left to the engine"""

    @property
    def num_gpus(self) -> int:
        return self.replicas * self.tp


@dataclass(frozen=True)
class FleetPlan:
    """Pools in the order of their mode's `ROLES`, and how requests are spread over them."""

    pools: tuple[PoolSetup, ...]
    router: str
    """rule for the first replica of a request"""
    decode_router: str | None = None
    """rule for its decode replica; None without a decode pool"""

    @property
    def mode(self) -> str:
        roles = tuple(pool.role for pool in self.pools)
        return next(mode for mode, wanted in ROLES.items() if wanted == roles)

    @property
    def num_gpus(self) -> int:
        """GPUs in use; a budget that no pool can use whole leaves some."""
        return sum(pool.num_gpus for pool in self.pools)

    @property
    def num_replicas(self) -> int:
        return sum(pool.replicas for pool in self.pools)

    def pool(self, role: str) -> PoolSetup | None:
        """The pool of `role`, if the mode has one."""
        return next((pool for pool in self.pools if pool.role == role), None)

    def settings(self) -> dict[str, Any]:
        """Plain data, as trials and candidates keep it."""
        return {
            "mode": self.mode,
            "num_gpus": self.num_gpus,
            "router": self.router,
            "decode_router": self.decode_router,
            "pools": [
                {
                    "role": pool.role,
                    "replicas": pool.replicas,
                    "tp": pool.tp,
                    "system": pool.system,
                    "settings": pool.settings,
                }
                for pool in self.pools
            ],
        }

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any]) -> FleetPlan:
        """What `settings` gave. Raises KeyError or TypeError when it is damaged."""
        pools = tuple(PoolSetup(**pool) for pool in plain["pools"])
        return cls(pools, plain["router"], plain["decode_router"])

    @property
    def ratio(self) -> str:
        """Replicas in a few characters: 10P:6D, 16, or 4 + 6P:6D."""
        counts = {pool.role: pool.replicas for pool in self.pools}
        split = f"{counts[PREFILL]}P:{counts[DECODE]}D" if PREFILL in counts else ""
        beside = str(counts[AGGREGATED]) if AGGREGATED in counts else ""
        return " + ".join(part for part in (beside, split) if part)

    def each(self, name: str) -> str:
        """A setting of every pool, "-" where it is left to the engine: 2048:8192."""
        return ":".join(str(pool.settings.get(name, "-")) for pool in self.pools)

    def words(self) -> str:
        """The fleet in one line, for people."""
        searched = dict.fromkeys(name for pool in self.pools for name in pool.settings)
        rules = self.router if self.decode_router is None else f"{self.router}/{self.decode_router}"
        tp = ":".join(str(pool.tp) for pool in self.pools)
        parts = [f"{self.mode} {self.ratio}", f"tp {tp}", rules]
        return ", ".join(parts + [f"{name} {self.each(name)}" for name in searched])


def plan_of(settings: Mapping[str, Any]) -> FleetPlan | None:
    """The fleet that a trial's or a candidate's `settings` describe; None for one engine."""
    return FleetPlan.from_settings(settings) if "pools" in settings else None


def in_words(settings: Mapping[str, Any]) -> str:
    """`settings` of a trial or a candidate as text."""
    plan = plan_of(settings)
    return str(settings) if plan is None else plan.words()
