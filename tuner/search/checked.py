"""Engines whose version the simulator's rules were not checked for: refused, or said once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from profiler.engines.base import EngineFacts
from profiler.versions import EngineUse, require_checked
from tuner.schema import Study


def unchecked_note(study: Study, facts: Mapping[str, Any]) -> str | None:
    """What to say of the engine of `facts` when the study accepts it unchecked, else None.

    Parameters
    ----------
    study
        `engine.unchecked` accepts it; what is searched counts as free to change.
    facts
        `engine`, `version` and `resolved` settings, as in `Profile.facts`.

    Raises
    ------
    EngineVersionError
        The rules may not hold for it, and the study does not accept that.
    """
    use = EngineUse(facts["engine"], facts["version"], facts["resolved"], study.search.space)
    return require_checked(use, accept=study.engine.unchecked)


class Started(Protocol):
    """An engine, or one server of a deployment."""

    facts: EngineFacts

    def stop(self) -> None: ...


def checked_engine(study: Study, engine: Started) -> str | None:
    """`unchecked_note` of a started engine, which is stopped when it is refused."""
    facts = engine.facts
    try:
        return unchecked_note(
            study,
            {
                "engine": facts.engine,
                "version": facts.version,
                "resolved": facts.resolved.settings(),
            },
        )
    except BaseException:
        engine.stop()
        raise
