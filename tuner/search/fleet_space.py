"""What can be chosen of a fleet, as axes that depend on each other, and back to a plan.

    mode                     aggregated, disaggregated, mixed
    gpus                     with `fewest` only: GPUs in use; no axis for a mode that needs them all
    ROLE.tp                  GPUs per replica of the pool
    ROLE.gpus                share of the GPUs, in units of (budget / its GPUs); the last pool of a
                             mode gets the rest
    ROLE.KNOB                searched settings of the pool
    MODE.router              rule for the first replica
    MODE.decode_router       rule for the decode replica

Every combination of values is a fleet within the budget: what does not fit is repaired, as
`settings.repair` does for an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from profiler.engine_config import EngineConfig
from tuner.fleet_plan import AGGREGATED, DECODE, PREFILL, ROLES, FleetPlan, PoolSetup
from tuner.space_section import Axis

if TYPE_CHECKING:
    from tuner.schema import Study

Settings = Callable[[str, int, Mapping[str, Any]], EngineConfig]
"""(role, tp, raw values of its knobs) -> settings of a replica"""


@dataclass(frozen=True)
class FleetSpace:
    """The choices that a study leaves."""

    modes: tuple[str, ...]
    max_gpus: int
    fewest: bool
    sizes: Mapping[str, Sequence[int]]
    """role -> GPUs per replica to choose from, ascending"""
    systems: Mapping[str, str]
    """role -> GPU system"""
    knobs: Mapping[str, Mapping[str, Axis]]
    """role -> searched settings"""
    routers: Sequence[str]
    decode_routers: Sequence[str]

    @classmethod
    def of(cls, study: Study) -> FleetSpace:
        """The choices of a study with a `fleet` section."""
        fleet, silicon, space = study.fleet, study.profile.silicon, study.search.space
        assert fleet is not None  # callers look first
        roles = dict.fromkeys(role for mode in fleet.modes for role in ROLES[mode])
        own = {PREFILL: fleet.prefill.space, DECODE: fleet.decode.space}
        return cls(
            modes=tuple(fleet.modes),
            max_gpus=fleet.gpus.max,
            fewest=fleet.gpus.fewest,
            sizes={role: fleet.sizes(role, silicon) for role in roles},
            systems={role: fleet.system(role, silicon) for role in roles},
            knobs={role: {**space, **own.get(role, {})} for role in roles},
            routers=fleet.routers,
            decode_routers=fleet.rules_of_decode(),
        )

    def kinds(self) -> list[tuple[str, int]]:
        """Every (GPU system, GPUs per replica) that a fleet may have."""
        found = [(self.systems[role], tp) for role in self.sizes for tp in self.sizes[role]]
        return list(dict.fromkeys(found))

    def axes(self, chosen: Mapping[str, Any]) -> dict[str, Axis]:
        """The axes that apply once `chosen` is: the mode alone, then everything else."""
        axes = {"mode": Axis(choices=list(self.modes))}
        if "mode" not in chosen:
            return axes
        mode = chosen["mode"]
        roles = ROLES[mode]
        if self.fewest and self._least(mode) < self.max_gpus:
            axes["gpus"] = Axis(low=self._least(mode), high=self.max_gpus)
        for role in roles:
            axes[f"{role}.tp"] = Axis(choices=list(self.sizes[role]))
            if role != roles[-1]:
                axes[f"{role}.gpus"] = _span(1, max(1, self.max_gpus - 1))
            axes |= {f"{role}.{name}": axis for name, axis in self.knobs[role].items()}
        axes[f"{mode}.router"] = Axis(choices=list(self.routers))
        if DECODE in roles:
            axes[f"{mode}.decode_router"] = Axis(choices=list(self.decode_routers))
        return axes

    def plan(self, raw: Mapping[str, Any], settings: Settings) -> FleetPlan:
        """The fleet that the raw values stand for."""
        mode = raw["mode"]
        sizes = self._fitting({role: raw[f"{role}.tp"] for role in ROLES[mode]})
        shares = {role: raw[f"{role}.gpus"] / self.max_gpus for role in ROLES[mode][:-1]}
        counts = divide(raw.get("gpus", self.max_gpus), sizes, shares)
        pools = tuple(
            PoolSetup(
                role,
                counts[role],
                tp,
                self.systems[role],
                settings(
                    role, tp, {name: raw[f"{role}.{name}"] for name in self.knobs[role]}
                ).settings(),
            )
            for role, tp in sizes.items()
        )
        return FleetPlan(pools, raw[f"{mode}.router"], raw.get(f"{mode}.decode_router"))

    def raw(self, plan: FleetPlan) -> dict[str, Any]:
        """Raw values that stand for `plan`; of its settings those that it gives."""
        mode, scale = plan.mode, self.max_gpus / plan.num_gpus
        raw: dict[str, Any] = {"mode": mode, f"{mode}.router": plan.router}
        if self.fewest:
            raw["gpus"] = plan.num_gpus
        if plan.decode_router is not None:
            raw[f"{mode}.decode_router"] = plan.decode_router
        for pool in plan.pools:
            raw[f"{pool.role}.tp"] = pool.tp
            raw[f"{pool.role}.gpus"] = round(scale * pool.num_gpus)
            raw |= {f"{pool.role}.{name}": value for name, value in pool.settings.items()}
        return raw

    def _least(self, mode: str) -> int:
        return sum(self.sizes[role][0] for role in ROLES[mode])

    def _fitting(self, sizes: dict[str, int]) -> dict[str, int]:
        """`sizes`, the largest one lowered as long as one replica of each exceeds the budget."""
        while sum(sizes.values()) > self.max_gpus:
            largest = max(
                (role for role in sizes if sizes[role] > self.sizes[role][0]), key=sizes.__getitem__
            )
            smaller = [size for size in self.sizes[largest] if size < sizes[largest]]
            sizes = sizes | {largest: smaller[-1]}
        return sizes


def divide(num_gpus: int, sizes: Mapping[str, int], shares: Mapping[str, float]) -> dict[str, int]:
    """Replicas of each pool; at least one each, and together at most `num_gpus` GPUs if so many
    hold one of each.

    Parameters
    ----------
    num_gpus
        GPUs to use.
    sizes
        GPUs per replica of each pool.
    shares
        Share of the GPUs of each pool but the last, which gets the rest. What the last one cannot
        use goes to the others, in order.
    """
    counts, left = {}, num_gpus
    roles = list(sizes)
    for i, role in enumerate(roles):
        later = sum(sizes[other] for other in roles[i + 1 :])
        most = (left - later) // sizes[role]
        wanted = most if i == len(roles) - 1 else round(shares[role] * num_gpus / sizes[role])
        counts[role] = max(1, min(wanted, most))
        left -= counts[role] * sizes[role]
    for role in roles:
        more = max(0, left) // sizes[role]
        counts[role] += more
        left -= more * sizes[role]
    return counts


def default_plan(space: FleetSpace, tp: int, settings: Mapping[str, Any]) -> FleetPlan:
    """What a user has without a search: aggregated replicas on all GPUs, in turn.

    Where the study leaves no aggregated mode, its first one with GPUs split evenly.
    """
    mode = AGGREGATED if AGGREGATED in space.modes else space.modes[0]
    sizes = {role: tp if tp in space.sizes[role] else space.sizes[role][0] for role in ROLES[mode]}
    shares = dict.fromkeys(sizes, 1 / len(sizes))
    counts = divide(space.max_gpus, sizes, shares)
    pools = tuple(
        PoolSetup(role, counts[role], size, space.systems[role], dict(settings))
        for role, size in sizes.items()
    )
    return FleetPlan(pools, space.routers[0], space.decode_routers[0] if len(sizes) > 1 else None)


def _span(low: int, high: int) -> Axis:
    return Axis(low=low, high=high) if low < high else Axis(choices=[low])
