"""The same study on new traffic, begun where the kept one ended."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.drift.price import starting_points
from tuner.results import Results, RunFolder
from tuner.schema import Study
from tuner.search.kept import KeptRun
from tuner.search.progress import Ui
from tuner.search.stages import StartEngine
from tuner.search.tune import TuneOptions, tune
from tuner.study import text_of
from tuner.whole_files import write_text, writing


@dataclass(frozen=True)
class Retune:
    """A new run: where, and whether the kept profile still holds."""

    folder: RunFolder
    profile_again: bool


def next_folder(folder: RunFolder) -> RunFolder:
    """The first of `<run folder>-retune-1`, `-2`, ... that is not there."""
    number = 1
    while (place := folder.path.with_name(f"{folder.path.name}-retune-{number}")).exists():
        number += 1
    return RunFolder(place)


def retune(run: KeptRun, study: Study, plan: Retune, ui: Ui, start: StartEngine) -> Results:
    """Run `study` (see `new_study`) in a folder of its own, the earlier best tried first.

    Raises what `tune` raises.
    """
    if not plan.profile_again:
        kept = run.profile_place
        profile = study.profile.model_copy(
            update={"path": str(kept.resolve()), "budget_s": None, "silicon": None}
        )
        study = study.model_copy(update={"profile": profile})
    with writing(plan.folder.path):
        plan.folder.path.mkdir(parents=True, exist_ok=True)
        write_text(plan.folder.study_file, text_of(study))
    options = TuneOptions(plan.folder.study_file, start=start, first=starting_points(run.results))
    return tune(study, plan.folder, options, ui)
