"""The study file's sections as pydantic models: strict types, known keys only, legal values."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from profiler.engine_config import EngineConfig, check_value, knob
from profiler.engines import ENGINES
from profiler.engines.base import EngineSpec
from profiler.engines.silicon.spec import ENGINES_WITH_DATA, SiliconSpec, Terms
from profiler.errors import KnobError

Scalar = bool | int | float | str
Share = Annotated[float, Field(ge=0, le=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Traffic(_Section):
    """Recorded (`path`) or synthetic (`like`) traffic, and what to take of it."""

    path: str | None = None
    like: str | None = None
    format: str | None = None
    map: dict[str, str] | None = None
    rate_rps: float | None = Field(default=None, gt=0)
    start_s: float = Field(default=0.0, ge=0)
    duration_s: float | None = Field(default=None, gt=0)
    max_prompt_tokens: int | None = Field(default=None, ge=1)
    max_output_tokens: int | None = Field(default=None, ge=1)
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.path is None) == (self.like is None):
            raise ValueError("give exactly one of path (recorded traffic) and like (synthetic)")
        if self.like and (self.format or self.map):
            raise ValueError("format and map describe a file; remove them or give path")
        return self


class EngineSection(_Section):
    """Which engine, which model, and the settings that are not searched."""

    name: str = "vllm"
    model: str
    load_format: str = "auto"
    dtype: str = "auto"
    device: str = "auto"
    args: dict[str, Any] = {}
    environment: dict[str, str] = {}
    config: dict[str, Scalar] = {}
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


class TermsSection(_Section):
    """What published kernel times leave out (`profiler.engines.silicon.spec.Terms`)."""

    step_s: float = Field(default=Terms.step_s, ge=0)
    host_s: float = Field(default=Terms.host_s, ge=0)
    host_per_running_s: float = Field(default=Terms.host_per_running_s, ge=0)
    frontend_s: float = Field(default=Terms.frontend_s, ge=0)
    graph_padding: bool = Terms.graph_padding


class SiliconSection(_Section):
    """Predict on a GPU from published measurements; the model defaults to the engine's."""

    system: str
    model: str | None = None
    tp: int = Field(default=1, ge=1)
    weight_dtype: str = "auto"
    kv_dtype: str = "auto"
    expert_parallel: bool = False
    terms: TermsSection = TermsSection()
    calibrate: str | None = None
    """measured profile to correct the latency model with"""


class ProfileSection(_Section):
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


class Limits(_Section):
    """Limits on the p99 of a class, seconds; also the limits of a good request."""

    ttft_p99_s: float | None = Field(default=None, gt=0)
    itl_p99_s: float | None = Field(default=None, gt=0)
    tpot_p99_s: float | None = Field(default=None, gt=0)


class SloSection(_Section):
    """Limits of every request, and of classes that differ."""

    default: Limits = Limits()
    classes: dict[str, Limits] = {}

    @model_validator(mode="after")
    def _some_limit(self) -> Self:
        every = (self.default, *self.classes.values())
        if not any(limit is not None for section in every for limit in dict(section).values()):
            raise ValueError("give at least one limit, for example default: {ttft_p99_s: 1.0}")
        return self


class Axis(_Section):
    """Values of one knob: a range, or a list of choices."""

    low: int | float | None = None
    high: int | float | None = None
    log: bool = False
    step: int | float | None = Field(default=None, gt=0)
    choices: list[Scalar] | None = Field(default=None, min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, value: Any) -> Any:
        return {"choices": value} if isinstance(value, list) else value

    @model_validator(mode="after")
    def _shape(self) -> Self:
        if self.choices is not None:
            return self
        if self.low is None or self.high is None:
            raise ValueError("give low and high, or a list of choices")
        if self.low >= self.high:
            raise ValueError(f"low must be below high, got {self.low} and {self.high}")
        if self.log and self.step is not None:
            raise ValueError("log and step exclude each other; remove one")
        if self.log and self.low <= 0:
            raise ValueError(f"a log range must start above 0, got low={self.low}")
        return self


def _check_axis(name: str, axis: Axis) -> None:
    """Raise KnobError when the knob is not for searching, or a value of the axis is illegal."""
    known = knob(name)
    if not known.searchable:
        raise KnobError(f"{name} cannot be searched; fix it in engine.config")
    if known.kind in ("bool", "choice") and axis.choices is None:
        raise KnobError(f"{name} is no number; give a list of choices")
    for value in axis.choices or (axis.low, axis.high):
        check_value(name, value)


class SearchSection(_Section):
    """How long to search, and over what."""

    trials: int = Field(default=100, ge=1)
    seed: int = Field(default=0, ge=0)
    workers: int = Field(default=1, ge=1)
    windows: int = Field(default=8, ge=1)
    space: dict[str, Axis] = Field(min_length=1)

    @field_validator("space")
    @classmethod
    def _legal(cls, space: dict[str, Axis]) -> dict[str, Axis]:
        try:
            for name, axis in space.items():
                _check_axis(name, axis)
        except KnobError as error:
            raise ValueError(str(error)) from error
        return space


class ValidateSection(_Section):
    """How to confirm: the best `top` and the engine default, `seconds` of traffic per replay."""

    top: int = Field(default=3, ge=1)
    seconds: float = Field(default=60.0, gt=0)
    rounds: int = Field(default=2, ge=1)
    keep_alive: bool = False


class ExportSection(_Section):
    """Which deployment files to write at the end."""

    target: str = "vllm"


class Study(_Section):
    """A study file, checked."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str = ""
    traffic: Traffic
    engine: EngineSection
    profile: ProfileSection = ProfileSection(budget_s=60.0)
    slo: SloSection
    search: SearchSection
    validate_: ValidateSection = Field(default=ValidateSection(), alias="validate")
    export: ExportSection = ExportSection()

    @model_validator(mode="after")
    def _fixed_or_searched(self) -> Self:
        both = sorted(set(self.engine.config) & set(self.search.space))
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
            terms=Terms(**silicon.terms.model_dump()),
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
