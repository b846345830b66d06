"""The study file's sections as pydantic models: strict types, known keys only, legal values."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from profiler.engine_config import EngineConfig
from profiler.engines import ENGINES
from profiler.engines.base import EngineSpec
from profiler.engines.silicon.spec import ENGINES_WITH_DATA, SiliconSpec
from profiler.errors import KnobError
from tuner.fleet_section import FleetSection, require_fleet
from tuner.section import Section
from tuner.silicon_section import SiliconSection
from tuner.space_section import Axis, Scalar, legal_space
from tuner.traffic_section import Traffic

Share = Annotated[float, Field(ge=0, le=1)]


class EngineSection(Section):
    """Which engine, which model, and the settings that are not searched."""

    name: str = "vllm"
    model: str
    load_format: str = "auto"
    dtype: str = "auto"
    device: str = "auto"
    args: dict[str, Any] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)
    config: dict[str, Scalar] = Field(default_factory=dict)
    unchecked: bool = False
    """go on with an engine version that the simulator's rules were not checked for"""
    acceptance: Share | list[Share] | None = None
    """of draft tokens: the chance of each, or the chances of 0, 1, ... accepted ones per step"""

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in ENGINES:
            raise ValueError(f"unknown engine {name!r}; known: {', '.join(sorted(ENGINES))}")
        return name

    @field_validator("config")
    @classmethod
    def _legal(cls, config: dict[str, Scalar]) -> dict[str, Scalar]:
        try:
            EngineConfig.from_settings(config).check()
        except KnobError as error:
            raise ValueError(str(error)) from error
        return config


class ProfileSection(Section):
    """Measure for `budget_s` seconds, use the finished profile in `path`, or predict (`silicon`)
    from published GPU measurements."""

    budget_s: float | None = Field(default=None, gt=0)
    path: str | None = None
    silicon: SiliconSection | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(way is not None for way in (self.budget_s, self.path, self.silicon)) != 1:
            raise ValueError(
                "give exactly one of budget_s (measure), path (a finished profile) and silicon "
                "(published GPU measurements)"
            )
        return self


class Limits(Section):
    """Limits on the p99 of a class, seconds; also the limits of a good request."""

    ttft_p99_s: float | None = Field(default=None, gt=0)
    itl_p99_s: float | None = Field(default=None, gt=0)
    tpot_p99_s: float | None = Field(default=None, gt=0)


class SloSection(Section):
    """Limits of every request, and of classes that differ."""

    default: Limits = Limits()
    classes: dict[str, Limits] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _some_limit(self) -> Self:
        every = (self.default, *self.classes.values())
        if not any(limit is not None for section in every for limit in dict(section).values()):
            raise ValueError("give at least one limit, for example default: {ttft_p99_s: 1.0}")
        return self


class SearchSection(Section):
    """How long to search, and over what."""

    trials: int = Field(default=100, ge=1)
    seed: int = Field(default=0, ge=0)
    workers: int = Field(default=1, ge=1)
    windows: int = Field(default=8, ge=1)
    space: dict[str, Axis] = Field(min_length=1)

    @field_validator("space")
    @classmethod
    def _legal(cls, space: dict[str, Axis]) -> dict[str, Axis]:
        return legal_space(space)


class ValidateSection(Section):
    """How to confirm: the best `top` and the engine default, `seconds` of traffic per replay."""

    top: int = Field(default=3, ge=1)
    seconds: float = Field(default=60.0, gt=0)
    rounds: int = Field(default=2, ge=1)
    keep_alive: bool = False


class ExportSection(Section):
    """Which deployment files to write at the end."""

    target: str = "vllm"


class Study(Section):
    """A study file, checked."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str = ""
    traffic: Traffic
    engine: EngineSection
    profile: ProfileSection = ProfileSection(budget_s=60.0)
    slo: SloSection
    search: SearchSection
    fleet: FleetSection | None = None
    """search a fleet instead of one engine"""
    validate_: ValidateSection = Field(default=ValidateSection(), alias="validate")
    export: ExportSection = ExportSection()

    @model_validator(mode="after")
    def _fixed_or_searched(self) -> Self:
        pools = () if self.fleet is None else (self.fleet.prefill.space, self.fleet.decode.space)
        searched = {name for space in (self.search.space, *pools) for name in space}
        both = sorted(searched & set(self.engine.config))
        if both:
            raise ValueError(f"{both[0]} is both fixed in engine.config and searched; remove one")
        return self

    @model_validator(mode="after")
    def _predictable(self) -> Self:
        silicon = self.profile.silicon
        if silicon is None:
            return self
        if self.engine.name not in ENGINES_WITH_DATA:
            raise ValueError(
                f"profile.silicon predicts {', '.join(ENGINES_WITH_DATA)}, got engine.name "
                f"{self.engine.name!r}; change one of them"
            )
        for name, value in self.silicon_spec().engine_args().items():
            if self.engine.args.get(name, value) != value:
                raise ValueError(
                    f"engine.args.{name} is {self.engine.args[name]} and profile.silicon asks for "
                    f"{value}; make them equal"
                )
        return self

    @model_validator(mode="after")
    def _fleet_fits(self) -> Self:
        if self.fleet is not None:
            require_fleet(self.fleet, self.profile.silicon)
            parallel = self.engine.args.get("tensor_parallel_size", 1)
            if self.profile.silicon is None and parallel != 1:
                raise ValueError(
                    "fleets of a measured profile count one GPU per replica, and "
                    f"engine.args.tensor_parallel_size is {parallel}; predict with profile.silicon"
                )
            if self.engine.config.get("num_speculative_tokens"):
                raise ValueError(
                    "fleets are simulated without speculative decoding; take "
                    "num_speculative_tokens out"
                )
        return self

    @property
    def acceptance(self) -> float | tuple[float, ...] | None:
        """Acceptance of draft tokens, as `simulate` takes it."""
        given = self.engine.acceptance
        return tuple(given) if isinstance(given, list) else given

    @property
    def fixed(self) -> EngineConfig:
        """The settings that are not searched."""
        return EngineConfig.from_settings(self.engine.config)

    def silicon_spec(self) -> SiliconSpec:
        """What `profile.silicon` asks for."""
        silicon = self.profile.silicon
        assert silicon is not None  # callers look first
        args = self.engine.args
        return SiliconSpec(
            model=silicon.model or self.engine.model,
            system=silicon.system,
            engine=self.engine.name,
            tp=silicon.tp,
            weight_dtype=silicon.weight_dtype,
            kv_dtype=silicon.kv_dtype,
            expert_parallel=silicon.expert_parallel,
            memory_fraction=float(args.get("gpu_memory_utilization", SiliconSpec.memory_fraction)),
            terms=silicon.chosen_terms(self.engine.model),
        )

    def engine_spec(self, config: EngineConfig) -> EngineSpec:
        """The study's engine with `config`."""
        e = self.engine
        return EngineSpec(
            engine=e.name,
            model=e.model,
            config=config,
            load_format=e.load_format,
            dtype=e.dtype,
            device=e.device,
            engine_args=dict(e.args),
            environment=dict(e.environment),
        )
