"""What the search asks of a problem, whatever it chooses: settings of one engine, or a fleet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from tuner.metrics import Metrics
from tuner.space_section import Axis


class Choosable(Protocol):
    """What is chosen: an `EngineConfig` or a `FleetPlan`."""

    def settings(self) -> dict[str, Any]:
        """Plain data that says all of it."""
        ...


Choice = TypeVar("Choice", bound=Choosable)


class Searchable(Protocol[Choice]):
    """A problem of the search. It goes to other processes by pickling.

    For each trial `axes` is called until it names nothing new, then `candidate` once, `evaluate`
    once and `worth` once. `default`, `starts` and `raw` serve the trials that are not sampled.
    """

    @property
    def default(self) -> Choice:
        """Trial 0: what a user has without a search."""
        ...

    def starts(self) -> Sequence[Choice]:
        """Good guesses, to be tried before anything is sampled."""
        ...

    def axes(self, chosen: Mapping[str, Any]) -> Mapping[str, Axis]:
        """What can be searched once `chosen` is: raw values of axes named before, by name."""
        ...

    def candidate(self, raw: Mapping[str, Any]) -> Choice:
        """What the raw values of all axes stand for."""
        ...

    def raw(self, choice: Choice) -> Mapping[str, Any]:
        """Raw values that `candidate` would make `choice` of; some may lie outside the axes."""
        ...

    def evaluate(self, choice: Choice) -> Metrics:
        """Predicted metrics. Raises one of `objective.REFUSED` for what cannot be."""
        ...

    def worth(self, choice: Choice, metrics: Metrics) -> float:
        """The third objective, which decides among those that meet the SLOs; more is better."""
        ...
