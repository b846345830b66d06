"""`stallfree verdict`: should this fleet be disaggregated at all?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.options import FreshOption, OutOption, ProfileOption, TraceOption, UncheckedOption


def verdict(
    study: Annotated[
        Path, typer.Argument(help="Study file (YAML) with a fleet section, or its run folder.")
    ],
    out: OutOption = None,
    trace: TraceOption = None,
    profile: ProfileOption = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Configurations to search on each side.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes, of the searches and of the map.")
    ] = None,
    windows: Annotated[
        int, typer.Option(min=1, help="Arrival windows to compare in; 1 for no chance.")
    ] = 16,
    top: Annotated[
        int, typer.Option(min=1, help="Candidates of each side to re-decide between in each cell.")
    ] = 3,
    requests: Annotated[
        int, typer.Option(min=100, help="Most requests per cell of the map, and per regime.")
    ] = 4000,
    switch: Annotated[
        float, typer.Option(min=0, help="Seconds a replica serves nothing when it changes pools.")
    ] = 0.0,
    no_map: Annotated[bool, typer.Option("--no-map", help="Leave out the map.")] = False,
    no_regimes: Annotated[
        bool, typer.Option("--no-regimes", help="Leave out the P:D over time.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the map to FILE.html.")] = None,
    fresh: FreshOption = False,
    unchecked_engine: UncheckedOption = False,
    json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Judge a fleet: tuned aggregated replicas or prefill and decode pools, at equal GPUs.

    Searches both sides, or takes the candidates of a finished `stallfree tune` of the study, and
    compares the best of each by goodput per GPU: the margin, the chance that the winner wins in
    other stretches of traffic like this one, the prompt length, link bandwidth and load at which
    the verdict flips, and a map of them. For traffic that changes over time also the best P:D in
    each regime, and what moving replicas between the pools gains. In every cell the best of a
    short list is chosen again, so that a flip is none of the tuning. Everything is simulated.
    """
    from profiler.errors import StudyError
    from tuner.cli.console import RichUi, compile_simulator, print_json, run_folder, stderr, stdout
    from tuner.cli.verdict_report import check_picture, print_verdict, save_map
    from tuner.results import RunFolder
    from tuner.study import load_study, overridden
    from tuner.verdict.judge import JudgeSettings
    from tuner.verdict.run import VerdictOptions, require_modes
    from tuner.verdict.run import verdict as run

    check_picture(plot, with_map=not no_map)
    own = RunFolder(study) if study.is_dir() else None
    if own is not None and out is not None:
        raise StudyError(f"{study} is a run folder, and keeps its verdict; leave out --out")
    study_file, base = (study, None) if own is None else (own.study_file, own.base)
    changes = {
        "traffic.path": trace,
        "profile.path": profile,
        "search.trials": trials,
        "search.workers": workers,
        "engine.unchecked": unchecked_engine or None,
    }
    checked = overridden(load_study(study_file, base), changes)
    require_modes(checked)
    folder = own or run_folder(out, checked.name)
    compile_simulator(fleet=True)
    settings = JudgeSettings(
        top=top,
        requests=requests,
        windows=windows,
        workers=checked.search.workers,
        switch_s=switch,
        with_map=not no_map,
        with_regimes=not no_regimes,
    )
    found = run(checked, folder, VerdictOptions(study_file, settings, fresh), RichUi())
    if plot is not None:
        save_map(found, plot)
        stderr.print(f"Picture: {plot}", highlight=False, soft_wrap=True)
    if json:
        print_json(found)
        return
    print_verdict(found, stdout)
    stderr.print(f"Run folder: {folder.path}", highlight=False, soft_wrap=True)
