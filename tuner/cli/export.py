"""`stallfree export`: a finished run's configuration as deployment files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    study: Annotated[Path, typer.Argument(help="Study file, or a run folder.")],
    target: Annotated[
        str,
        typer.Option(
            help="What to deploy to: vllm, compose, kubernetes, production-stack, kserve, llm-d, "
            "dynamo or ray-serve."
        ),
    ] = "vllm",
    pick: Annotated[
        str,
        typer.Option(
            help="Which configuration: recommended, best (predicted goodput; of fleets per GPU), "
            "knee (of the front) or the number of a trial."
        ),
    ] = "recommended",
    current: Annotated[
        Path | None,
        typer.Option(help="File of what runs now; adds previous/, diff.txt and ROLLBACK.md."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder; default: bundle in the run folder.")
    ] = None,
    launch: Annotated[
        bool,
        typer.Option(
            "--launch",
            help="Start the exported vLLM command on this machine, read every setting back, replay "
            "a part of the traffic, and add the result.",
        ),
    ] = False,
    launch_for: Annotated[
        str, typer.Option(help="How much of the traffic --launch replays, like 30s or 2m.")
    ] = "2m",
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write a configuration as files for an engine or a platform, with the evidence.

    Beside the files: what became of every setting, one page of evidence, a canary plan, and alert
    rules. The folder is replaced whole.
    """
    from tuner.cli.console import RichUi, find_run, print_json, stdout
    from tuner.cli.durations import seconds
    from tuner.export.bundle import BundleOptions, bundle, held_out_of, launch_plan
    from tuner.export.emit import emit
    from tuner.export.rollback import read_current

    folder = find_run(study)
    running = None if current is None else read_current(current)
    options = BundleOptions(target, pick, running)
    replayed_s = seconds(launch_for)
    plan = launch_plan(folder, pick, replayed_s) if launch else None
    files = bundle(folder.load_results(), options, held_out_of(folder))
    written = emit(files, out or folder.bundle)
    if plan is not None:
        from tuner.export.launch import launch as launched

        with RichUi().progress("starting vLLM, then replaying") as progress:
            files |= launched(plan, progress=progress)
        emit(files, written)
    if json:
        print_json({"folder": str(written), "files": sorted(files)})
        return
    for name in sorted(files):
        stdout.print(str(written / name), highlight=False, soft_wrap=True)
