"""`stallfree export`: a finished run's recommendation as deployment files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    study: Annotated[Path, typer.Argument(help="Study file, or a run folder.")],
    target: Annotated[str, typer.Option(help="What to deploy to: vllm.")] = "vllm",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder; default: bundle in the run folder.")
    ] = None,
) -> None:
    """Write the recommended configuration as files for an engine, with the evidence.

    The folder is replaced whole.
    """
    from tuner.cli.console import find_run, stdout
    from tuner.export.emit import emit
    from tuner.export.targets import render

    folder = find_run(study)
    written = emit(render(folder.load_results(), target), out or folder.bundle)
    for path in sorted(written.iterdir()):
        stdout.print(str(path), highlight=False, soft_wrap=True)
