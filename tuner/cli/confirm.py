"""`stallfree confirm`: measure a finished search's best few again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.options import OutOption, UncheckedOption


def confirm(
    study: Annotated[Path, typer.Argument(help="Study file (YAML) whose search has finished.")],
    out: OutOption = None,
    top: Annotated[int | None, typer.Option(min=1, help="How many candidates.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Replays of each.")] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Repeat replays that are already kept.")
    ] = False,
    unchecked_engine: UncheckedOption = False,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Replay the best candidates and the engine default on the real engine, decide, and export.

    `tune` does this itself; use it to measure more candidates or more rounds. Replays that are
    already kept are not repeated unless asked for. Of a fleet, at most 4 replicas are rehearsed:
    the engine default, the recommended fleet and the best of each other mode.
    """
    from tuner.cli.console import RichUi, compile_simulator, run_folder
    from tuner.cli.finished import export_and_print
    from tuner.export.targets import target_named
    from tuner.search.tune import confirm_again
    from tuner.study import load_study, overridden

    changes = {
        "validate.top": top,
        "validate.rounds": rounds,
        "engine.unchecked": unchecked_engine or None,
    }
    checked = overridden(load_study(study), changes)
    target_named(checked.export.target)  # said now, not after the search
    folder = run_folder(out, checked.name)
    compile_simulator(bool(checked.fixed.num_speculative_tokens), checked.fleet is not None)
    results = confirm_again(checked, folder, RichUi(), again=again)
    export_and_print(folder, results, checked.export.target, as_json=json)
