"""`stallfree worker`: runs the studies that a storage folder has queued."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def worker(
    root: Annotated[Path, typer.Argument(help="Storage folder: the folder with run folders.")] = (
        Path("stallfree-runs")
    ),
    once: Annotated[bool, typer.Option("--once", help="End when no study waits any more.")] = False,
    poll: Annotated[
        float, typer.Option(min=0.05, help="Seconds between two looks at an empty queue.")
    ] = 2.0,
) -> None:
    """Run the studies that were queued in a storage folder, one after another.

    The dashboard queues them (`stallfree dashboard --allow-launch`). Ctrl-C ends the study that
    runs and keeps what it has finished; a second one ends it at once.
    """
    import sys

    from tuner.cli.console import stderr
    from tuner.search.worker import Worker

    def say(line: str) -> None:
        stderr.print(f"[bold]·[/bold] {line}", highlight=False, soft_wrap=True)

    command = [sys.executable, "-P", "-m", "tuner.cli", "tune", "--resume"]
    say(f"looking for queued studies in {root}" + ("" if once else "; Ctrl-C ends it"))
    Worker(root, command, say, poll).run(once=once)
