"""One replay of one configuration, as a run folder keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.outcomes import Outcomes
from tuner.whole_files import read_json, whole_folder, write_json, writing


@dataclass(frozen=True)
class SavedReplay:
    """What a confirmation saw."""

    facts: dict[str, Any]
    raw: Outcomes
    corrected: Outcomes

    def save(self, place: Path) -> None:
        """Write the folder `place`, whole or not at all. Raises `ResultsError`."""
        with writing(place), whole_folder(place) as folder:
            self.raw.save(folder / "raw.parquet")
            self.corrected.save(folder / "corrected.parquet")
            write_json(folder / "replay.json", self.facts)

    @classmethod
    def load(cls, place: Path) -> SavedReplay | None:
        """What `save` wrote, or None when there is nothing."""
        if not place.exists():
            return None
        return cls(
            facts=read_json(place / "replay.json"),
            raw=Outcomes.load(place / "raw.parquet"),
            corrected=Outcomes.load(place / "corrected.parquet"),
        )
