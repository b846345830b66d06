"""`Profile`: what profiling leaves behind, as one folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.errors import ResultsError
from profiler.latency.base import StepTimeModel
from profiler.latency.report import HeldOutReport
from profiler.outcomes import Outcomes
from profiler.steps import StepSamples

SCHEMA_VERSION = 1
STEPS, OUTCOMES, MODEL, FACTS = (
    "steps.parquet",
    "outcomes.parquet",
    "step_time.json",
    "facts.json",
)


@dataclass(frozen=True)
class Profile:
    """Steps, outcomes of the replayed slice, latency model, its report, and facts."""

    samples: StepSamples
    """every step, sentinel and replay included, with `speed` filled in"""
    model: StepTimeModel
    outcomes: Outcomes
    """of the slice of the user's trace, as measured"""
    facts: dict[str, Any]
    """engine, version, resolved settings, KV blocks, device, model shape, trace digest, ..."""
    report: HeldOutReport

    def save(self, folder: Path) -> None:
        """Write the four files (and the gaps of the outcomes) into `folder`, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        self.samples.save(folder / STEPS)
        self.outcomes.save(folder / OUTCOMES)
        self.model.save(folder / MODEL)
        data = {
            "schema_version": SCHEMA_VERSION,
            "facts": self.facts,
            "held_out": self.report.to_dict(),
        }
        text = json.dumps(data, indent=1, allow_nan=False) + "\n"
        (folder / FACTS).write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Profile:
        """Read what `save` wrote.

        Raises
        ------
        ResultsError
            The folder is missing, damaged or of another schema version.
        LatencyModelError
            Its latency model cannot be read.
        """
        path = folder / FACTS
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["schema_version"] != SCHEMA_VERSION:
                raise ResultsError(
                    f"{path} has schema version {data['schema_version']}, this version reads "
                    f"{SCHEMA_VERSION}; profile again"
                )
            facts, report = dict(data["facts"]), HeldOutReport.from_dict(data["held_out"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ResultsError(
                f"no profile can be read from {folder} ({error!r}); profile again"
            ) from error
        return cls(
            samples=StepSamples.load(folder / STEPS),
            model=StepTimeModel.load(folder / MODEL),
            outcomes=Outcomes.load(folder / OUTCOMES),
            facts=facts,
            report=report,
        )
