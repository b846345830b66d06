"""The study file's `fleet`: how many GPUs, split how, behind which routers."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from tuner.fleet_plan import AGGREGATED, DECODE, DISAGGREGATED, PREFILL, ROLES
from tuner.section import Section
from tuner.silicon_section import SiliconSection
from tuner.space_section import Axis, legal_space

MAX_GPUS = 4096
MAX_TP = 64


def _checked_tp(tp: list[int] | None) -> list[int] | None:
    for size in tp or ():
        if not 1 <= size <= MAX_TP or size & (size - 1):
            raise ValueError(f"tp must be a power of two, 1 to {MAX_TP}, got {size}; give 1, 2, 4")
    return None if tp is None else sorted(set(tp))


class GpuBudget(Section):
    """GPUs to use; with `fewest` at most so many, as few as meet the SLOs."""

    max: int = Field(ge=1, le=MAX_GPUS)
    fewest: bool = False


class LinkSection(Section):
    """What KV is moved over, into each decode replica: a known or measured link, or its figures."""

    name: str | None = None
    """a known link, or the path of a measured one"""
    latency_s: float | None = Field(default=None, gt=0)
    """instead of the named link's; needed without a name, as the bandwidth is"""
    bytes_per_s: float | None = Field(default=None, gt=0)
    shared: bool = True
    """concurrent loads of a decode replica share the bandwidth"""
    layerwise: bool = False
    """KV leaves layer by layer while the prompt is computed"""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("latency_s", "bytes_per_s", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        """YAML reads 50e9 as text: it wants 50.0e+9."""
        try:
            return float(value) if isinstance(value, str) else value
        except ValueError:
            return value

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.name is None and None in (self.latency_s, self.bytes_per_s):
            raise ValueError("give a link's name, or both latency_s and bytes_per_s")
        return self


class PoolSection(Section):
    """What differs in one pool from the study: another GPU, other sizes, other knob ranges."""

    system: str | None = None
    tp: list[int] | None = Field(default=None, min_length=1)
    space: dict[str, Axis] = Field(default_factory=dict)

    _tp = field_validator("tp")(_checked_tp)
    _space = field_validator("space")(legal_space)


class FleetSection(Section):
    """A fleet to search for."""

    gpus: GpuBudget
    modes: list[str] = Field(default=[AGGREGATED, DISAGGREGATED], min_length=1)
    tp: list[int] | None = Field(default=None, min_length=1)
    """GPUs per replica to choose from; None: that of `profile.silicon`, or 1"""
    link: LinkSection = LinkSection(name="ib-ndr")
    routers: list[str] = Field(default=["round-robin", "least-requests"], min_length=1)
    decode_routers: list[str] | None = Field(default=None, min_length=1)
    """None: those of `routers` that can choose a decode replica, else round robin"""
    prefill: PoolSection = PoolSection()
    decode: PoolSection = PoolSection()
    requests: int = Field(default=6000, ge=100)
    """the search simulates at most so many requests per candidate; the best are scored on all"""

    _tp = field_validator("tp")(_checked_tp)

    @field_validator("gpus", mode="before")
    @classmethod
    def _from_number(cls, value: Any) -> Any:
        return {"max": value} if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("modes")
    @classmethod
    def _known_modes(cls, modes: list[str]) -> list[str]:
        return _known("mode", modes, list(ROLES))

    @model_validator(mode="after")
    def _known_routers(self) -> Self:
        rules = router_rules()
        _known("router", self.routers, rules)
        _known("decode router", self.decode_routers or [], rules[:4])
        return self

    def rules_of_decode(self) -> list[str]:
        """Rules to choose a decode replica by."""
        able = [rule for rule in self.routers if rule in router_rules()[:4]]
        return self.decode_routers or able or router_rules()[:1]

    def sizes(self, role: str, silicon: SiliconSection | None) -> list[int]:
        """GPUs per replica to choose from in pools of `role`, ascending."""
        own = {PREFILL: self.prefill.tp, DECODE: self.decode.tp}.get(role)
        return own or self.tp or [1 if silicon is None else silicon.tp]

    def system(self, role: str, silicon: SiliconSection | None) -> str:
        """GPU system of the pools of `role`; "" where the profile is measured."""
        own = {PREFILL: self.prefill.system, DECODE: self.decode.system}.get(role)
        return own or ("" if silicon is None else silicon.system)

    def least_gpus(self, mode: str, silicon: SiliconSection | None) -> int:
        """GPUs of the smallest fleet of `mode`."""
        return sum(self.sizes(role, silicon)[0] for role in ROLES[mode])


def router_rules() -> list[str]:
    """Names of the router's rules; the first four can choose a decode replica, too."""
    from tuner.simulator.router import RULES  # heavy: only studies of fleets need it

    return list(RULES)


def _known(what: str, names: list[str], known: list[str]) -> list[str]:
    for name in names:
        if name not in known:
            raise ValueError(f"unknown {what} {name!r}; known: {', '.join(known)}")
    return list(dict.fromkeys(names))


def require_fleet(fleet: FleetSection, silicon: SiliconSection | None) -> None:
    """Raise ValueError, one line, when the fleet clashes with its budget or its profile."""
    for mode in fleet.modes:
        least = fleet.least_gpus(mode, silicon)
        if fleet.gpus.max < least:
            sizes = " and ".join(
                f"{fleet.sizes(role, silicon)[0]} per {role} replica" for role in ROLES[mode]
            )
            raise ValueError(
                f"fleet.gpus: {mode} needs at least {least} GPUs ({sizes}), got "
                f"{fleet.gpus.max}; raise it, lower tp, or take {mode} out of fleet.modes"
            )
    roles = {role for mode in fleet.modes for role in ROLES[mode]}
    kinds = {
        (fleet.system(role, silicon), size) for role in roles for size in fleet.sizes(role, silicon)
    }
    if silicon is None and kinds != {("", 1)}:
        raise ValueError(
            "fleet: a measured profile is of one replica on one device, so neither system nor a tp "
            "above 1 can be chosen; take them out, or predict with profile.silicon"
        )
    if silicon is not None and silicon.calibrate and kinds != {(silicon.system, silicon.tp)}:
        raise ValueError(
            "fleet: profile.silicon.calibrate corrects one system and tp "
            f"({silicon.system}, {silicon.tp}), the fleet asks for others, too; take one out"
        )
