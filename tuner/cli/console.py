"""What the commands share: consoles, progress bars, and where runs are."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from profiler.engines.base import Progress as Report
from profiler.errors import StudyError
from tuner.results import DEFAULT_ROOT, RunFolder

if TYPE_CHECKING:
    from tuner.schema import Study

stdout = Console()
stderr = Console(stderr=True)


class RichUi:
    """Stages and bars on stderr, so that stdout is left to the results."""

    def stage(self, text: str) -> None:
        stderr.print(f"[bold]·[/bold] {text}", highlight=False)

    @contextmanager
    def progress(self, text: str) -> Iterator[Report]:
        columns = (
            TextColumn("  {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        if not stderr.is_terminal:  # a log file gets the line, not the bar
            stderr.print(f"  {text}", highlight=False)
        with Progress(*columns, console=stderr, disable=not stderr.is_terminal) as bars:
            task = bars.add_task(text, total=None)
            yield lambda done, total: bars.update(task, completed=done, total=total)


def compile_simulator(speculative: bool = False, fleet: bool = False) -> None:
    """Where the simulator is not compiled yet, do it in sight instead of at the first simulation.

    Every command that simulates calls this once its input is checked. `speculative` is the kernel
    for configurations with draft tokens, a second one; `fleet` the one for fleets, a third.
    """
    from tuner import simulator  # heavy

    if not simulator.is_compiled(speculative, fleet):
        kernel = "the simulator for draft tokens" if speculative else "the simulator"
        kernel = "the simulator for fleets" if fleet else kernel
        seconds = 60 if fleet else 15 if speculative else 25
        with RichUi().progress(f"compiling {kernel}, once, about {seconds} s"):
            simulator.prepare(speculative, fleet)


def print_json(plain: Mapping[str, Any]) -> None:
    """One JSON object on stdout, for scripts."""
    sys.stdout.write(json.dumps(plain, indent=2, allow_nan=False, default=str) + "\n")


def run_folder(out: Path | None, study_name: str) -> RunFolder:
    """The folder given, else `stallfree-runs/<study name>` under the current directory."""
    return RunFolder(out if out is not None else DEFAULT_ROOT / study_name)


@dataclass(frozen=True)
class Found:
    """A study and where to run it."""

    study: Study
    file: Path
    folder: RunFolder


def study_to_run(target: Path, out: Path | None) -> Found:
    """What to run of a study file, in the folder `out` if given; or of a run folder, there.

    Raises `StudyError`.
    """
    from tuner.study import load_study

    if not target.is_dir():
        study = load_study(target)
        return Found(study, target, run_folder(out, study.name))
    if out is not None:
        raise StudyError(f"{target} is a run folder and runs there; leave --out away")
    folder = RunFolder(target)
    return Found(load_study(folder.study_file, folder.base), folder.study_file, folder)


def find_run(target: Path) -> RunFolder:
    """The run folder of a study file, or `target` itself when it is a folder."""
    if target.is_dir():
        return RunFolder(target)
    from tuner.study import load_study

    return run_folder(None, load_study(target).name)
