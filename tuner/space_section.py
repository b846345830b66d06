"""Values of searched knobs in a study file."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, model_validator

from profiler.engine_config import check_value, knob
from profiler.errors import KnobError
from tuner.section import Section

Scalar = bool | int | float | str


class Axis(Section):
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


def check_axis(name: str, axis: Axis) -> None:
    """Raise KnobError when the knob is not for searching, or a value of the axis is illegal."""
    known = knob(name)
    if not known.searchable:
        raise KnobError(f"{name} cannot be searched; fix it in engine.config")
    if known.kind in ("bool", "choice") and axis.choices is None:
        raise KnobError(f"{name} is no number; give a list of choices")
    for value in axis.choices or (axis.low, axis.high):
        check_value(name, value)


def legal_space(space: dict[str, Axis]) -> dict[str, Axis]:
    """`space` itself. Raises ValueError, one line, when an axis is illegal."""
    try:
        for name, axis in space.items():
            check_axis(name, axis)
    except KnobError as error:
        raise ValueError(str(error)) from error
    return space
