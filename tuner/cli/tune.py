"""`stallfree tune`: from a study file to a confirmed, exported configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.options import FreshOption, OutOption, ProfileOption, TraceOption, UncheckedOption


def tune(
    study: Annotated[Path, typer.Argument(help="Study file (YAML), or the folder of a run.")],
    out: OutOption = None,
    trace: TraceOption = None,
    profile: ProfileOption = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Configurations to search, the default included.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Search processes.")] = None,
    windows: Annotated[
        int | None,
        typer.Option(min=1, help="Arrival windows to score each configuration over; 1 for none."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of search and prompts.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted run.")
    ] = False,
    fresh: FreshOption = False,
    unchecked_engine: UncheckedOption = False,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Profile the engine, search, confirm the best few on it, and export the winner.

    Everything is kept in the run folder as soon as it is done: a killed run goes on with --resume.
    """
    from tuner.cli.console import RichUi, compile_simulator, stderr, study_to_run
    from tuner.cli.finished import export_and_print
    from tuner.export.targets import target_named
    from tuner.search.tune import TuneOptions
    from tuner.search.tune import tune as run
    from tuner.study import overridden

    changes = {
        "traffic.path": trace,
        "profile.path": profile,
        "search.trials": trials,
        "search.workers": workers,
        "search.windows": windows,
        "search.seed": seed,
        "engine.unchecked": unchecked_engine or None,
    }
    found = study_to_run(study, out)
    checked = overridden(found.study, changes)
    target_named(checked.export.target)  # said now, not after the search
    folder = found.folder
    compile_simulator(bool(checked.fixed.num_speculative_tokens), checked.fleet is not None)
    options = TuneOptions(found.file, resume=resume, fresh=fresh)
    results = run(checked, folder, options, RichUi())
    export_and_print(folder, results, checked.export.target, as_json=json)
    if not json:
        stderr.print(f"Run folder: {folder.path}", highlight=False, soft_wrap=True)
