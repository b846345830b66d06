"""Is the engine still of the version that was profiled?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from packaging.version import InvalidVersion, Version

from profiler.versions import EngineUse, unchecked_reason


@dataclass(frozen=True)
class VersionDrift:
    """The version profiled and the one that runs."""

    profiled: str
    running: str | None
    """None when nobody said"""
    drifted: bool
    note: str
    """what follows from it, in words; empty where nothing does"""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)


def compare_version(
    facts: Mapping[str, Any], running: str | None, settings: Mapping[str, Any]
) -> VersionDrift:
    """Whether `running` is another release than the one of a profile's `facts`.

    A patch release keeps the schedule and about the step times (`profiler.versions`), so it is
    said but is no drift; what follows a "+" names the build and not the release.

    Parameters
    ----------
    facts
        `engine` and `version`, as in `Profile.facts`.
    running
        As the engine or its operator says it.
    settings
        Those deployed: a version may schedule them otherwise than the simulator does.
    """
    profiled = str(facts.get("version", ""))
    if running is None:
        return VersionDrift(profiled, None, False, "")
    if _release(profiled) == _release(running):
        note = "" if _public(profiled) == _public(running) else "a patch release apart"
        return VersionDrift(profiled, running, False, note)
    note = "step times were measured on another release"
    reason = unchecked_reason(EngineUse(str(facts.get("engine", "")), running, settings))
    return VersionDrift(profiled, running, True, f"{note}; {reason}" if reason else note)


def _release(text: str) -> tuple[int, ...] | str:
    """Major and minor number; the text itself when it is no version."""
    try:
        return Version(text).release[:2]
    except InvalidVersion:
        return text


def _public(text: str) -> str:
    try:
        return Version(text).public
    except InvalidVersion:
        return text
