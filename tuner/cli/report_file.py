"""`stallfree report`: a finished run's figures as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    study: Annotated[Path, typer.Argument(help="Study file, or a run folder.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    pick: Annotated[
        str,
        typer.Option(help="Which configuration: recommended, best, knee or the number of a trial."),
    ] = "recommended",
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write the dashboard's figures into one HTML file, for a pull request or an e-mail.

    It needs neither a server nor a network, and holds times and lengths only.
    """
    import os
    import sys

    from profiler.errors import StudyError
    from tuner.cli.console import find_run

    if out.suffix != ".html":
        raise StudyError(f"--out must be an HTML file, got {str(out)!r}; give FILE.html")
    folder = find_run(study).path.resolve()
    command = [sys.executable, "-P", "-m", "dashboard.report", str(folder), f"--out={out}"]
    command += [f"--pick={pick}", *(["--json"] if json else [])]
    os.execv(sys.executable, command)  # the dashboard's part: nothing of the tuner imports it
