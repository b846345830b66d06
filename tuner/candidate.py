"""One confirmed configuration, what its figures are, and how a run ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from profiler.engines.rehearsal import REHEARSED
from tuner.fleet_plan import FleetPlan, plan_of


class Evidence(StrEnum):
    """What the figures of a run are. The value is what every output calls confirmed ones."""

    MEASURED = "measured"
    """seen by a client of an engine that computed every step"""
    REHEARSED = "rehearsed"
    """seen by a client of an engine whose steps took the latency model's time"""
    PREDICTED = "predicted"
    """nothing was confirmed"""

    @property
    def note(self) -> str:
        """One line for people."""
        return _NOTES[self]


_NOTES = {
    Evidence.MEASURED: "measured on the real engine",
    Evidence.REHEARSED: REHEARSED,
    Evidence.PREDICTED: "nothing was measured",
}


class Verdict(StrEnum):
    """How a run ended. None of these is a fault."""

    MET = "met"
    """a searched configuration meets the SLOs, measured, and is the best that does"""
    DEFAULT_IS_BEST = "default_is_best"
    """the engine's default meets the SLOs, and no confirmed candidate measured better"""
    NOTHING_MET = "nothing_met"
    """no confirmed configuration met the SLOs; `recommended` holds the closest one"""
    PREDICTED = "predicted"
    """nothing was measured, for lack of an engine: all is predicted, `meets_slo` included"""


@dataclass(frozen=True)
class Candidate:
    """One configuration, predicted and measured. Metrics are `Metrics.to_dict` dictionaries."""

    label: str
    settings: dict[str, Any]
    """settings that are not left to the engine; of a fleet, its plan (`FleetPlan.settings`)"""
    predicted: dict[str, Any] | None
    """of the traffic that was replayed"""
    measured: dict[str, Any] | None
    """as the client saw it, all rounds pooled; in files called what `Results.evidence` says"""
    corrected: dict[str, Any] | None
    """measured, scaled to the machine speed of the profile (first order)"""
    replays: list[dict[str, Any]]
    """per round: speed of the machine against the profile, fidelity"""
    resolved: dict[str, Any]
    """every setting, as the engine resolved it; of a fleet, by the role of the pool"""
    not_sampled: list[str] = field(default_factory=list)
    """what its steps may reach that the latency model was not sampled for, in words"""
    failure: str | None = None
    """why it could not be measured"""
    use: dict[str, dict[str, Any]] = field(default_factory=dict)
    """of a fleet: role -> load, requests of each replica, preemptions"""

    @property
    def plan(self) -> FleetPlan | None:
        """The fleet that this is; None for one engine."""
        return plan_of(self.settings)

    def to_dict(self, evidence: Evidence) -> dict[str, Any]:
        """Plain data, `measured` under the name of what it is, if there is such a thing."""
        plain = asdict(self)
        measured = plain.pop("measured")
        return plain if evidence is Evidence.PREDICTED else plain | {evidence.value: measured}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], evidence: Evidence) -> Candidate:
        """What `to_dict` wrote. Raises KeyError or TypeError when it is damaged."""
        if evidence is Evidence.PREDICTED:
            return cls(**plain, measured=None)
        others = {name: value for name, value in plain.items() if name != evidence.value}
        return cls(**others, measured=plain[evidence.value])
