"""The study file's traffic section."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from tuner.section import Section


class TrafficClass(Section):
    """Synthetic traffic of one class of a mix."""

    like: str
    rate_rps: float = Field(gt=0)
    max_prompt_tokens: int | None = Field(default=None, ge=1)
    max_output_tokens: int | None = Field(default=None, ge=1)


class Traffic(Section):
    """Recorded (`path`) or synthetic traffic (`like`, or a `mix` of classes), and what to take."""

    path: str | None = None
    like: str | None = None
    mix: dict[str, TrafficClass] | None = Field(default=None, min_length=1)
    format: str | None = None
    map: dict[str, str] | None = None
    rate_rps: float | None = Field(default=None, gt=0)
    share: float = Field(default=1.0, gt=0, le=1)
    """of the requests, drawn at random: what a router gives one of several replicas"""
    start_s: float = Field(default=0.0, ge=0)
    duration_s: float | None = Field(default=None, gt=0)
    max_prompt_tokens: int | None = Field(default=None, ge=1)
    max_output_tokens: int | None = Field(default=None, ge=1)
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum(source is not None for source in (self.path, self.like, self.mix)) != 1:
            raise ValueError(
                "give exactly one of path (recorded), mix and like (synthetic traffic)"
            )
        if self.path is None and (self.format or self.map):
            raise ValueError("format and map describe a file; remove them or give path")
        if self.mix and self.rate_rps is not None:
            raise ValueError("each class of a mix has its own rate_rps; remove traffic.rate_rps")
        return self
