"""`stallfree show`: a finished run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def show(
    study: Annotated[Path, typer.Argument(help="Study file, or a run folder.")],
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Show a finished run: settings, predicted and measured figures, the front, the verdict."""
    from tuner.cli.console import find_run, print_json, stdout

    folder = find_run(study)
    results = folder.load_results()
    if json:
        print_json(results.to_dict())
        return
    from tuner.cli.report import print_results

    print_results(results, stdout)
    if folder.bundle.exists():
        stdout.print(f"Bundle: {folder.bundle}", highlight=False, soft_wrap=True)
