"""Which profiles a run rests on."""

from __future__ import annotations

from pathlib import Path

from profiler.errors import ResultsError
from tuner.results import RunFolder
from tuner.search.fleet_space import FleetSpace
from tuner.search.kept import KeptRun


def profiles_of(folder: RunFolder) -> dict[str, Path]:
    """Name -> every profile that a run rests on: its own and, of a fleet, one of each other kind
    of replica."""
    own = {"profile": folder.profile} if folder.profile.is_dir() else {}
    others = sorted(path for path in folder.replicas.glob("*") if path.is_dir())
    return own | {path.name: path for path in others}


def profile_place(folder: RunFolder, name: str) -> Path:
    """One of `profiles_of`; a name is never taken for a path. Raises `ResultsError`."""
    known = profiles_of(folder)
    if name not in known:
        raise ResultsError(f"{folder.path} holds no profile {name!r}; run `stallfree tune` again")
    return known[name]


def require_profiles(run: KeptRun) -> None:
    """Raise `ResultsError` when the profile of a kind of replica is gone, because it would be made
    again, which takes long and writes."""
    silicon, known = run.study.profile.silicon, profiles_of(run.folder)
    own = ("", 1) if silicon is None else (silicon.system, silicon.tp)
    for system, tp in FleetSpace.of(run.study).kinds():
        if (system, tp) != own and f"{system}-tp{tp}" not in known:
            path = run.folder.path
            raise ResultsError(
                f"{path} lacks the profile of {tp} x {system}; run `stallfree tune {path} --resume`"
            )
