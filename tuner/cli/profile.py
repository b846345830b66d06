"""`stallfree profile`: measure a study's engine and fit its step-latency model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def profile(
    study: Annotated[Path, typer.Argument(help="Study file (YAML).")],
    budget: Annotated[
        str | None, typer.Option(help="Longest time to measure, for example 90s or 5m.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder; default: profile in the study's run folder."),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Recorded traffic to use instead of the study's.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the sampled batches.")] = None,
    unchecked_engine: Annotated[
        bool,
        typer.Option(
            "--unchecked-engine",
            help="Go on with an engine version that the simulator was not compared with.",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Start the engine, measure its steps, fit the latency model, and report its held-out error.

    The report says how far predictions were off on steps left out of the fit, region by region,
    and which regions were not sampled.
    """
    from tuner.cli.console import RichUi, print_json, run_folder, stdout
    from tuner.cli.durations import seconds
    from tuner.cli.heldout import print_heldout
    from tuner.search.tune import measure, save_profile
    from tuner.study import build_trace, load_study, overridden

    wanted = None if budget is None else seconds(budget)
    changes = {
        "traffic.path": trace,
        "search.seed": seed,
        "profile.budget_s": wanted,
        "engine.unchecked": unchecked_engine or None,
    }
    checked = overridden(load_study(study), changes)
    place = out if out is not None else run_folder(None, checked.name).profile
    measured = measure(checked, build_trace(checked), RichUi())
    save_profile(measured, place)
    if json:
        print_json({"profile": str(place), "facts": measured.facts})
        return
    print_heldout(measured.report, stdout)
    stdout.print(f"Profile: {place}", highlight=False, soft_wrap=True)
