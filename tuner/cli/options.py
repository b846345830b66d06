"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

OutOption = Annotated[
    Path | None, typer.Option(help="Run folder; default stallfree-runs/<study name>.")
]
TraceOption = Annotated[
    Path | None, typer.Option(help="Recorded traffic to use instead of the study's.")
]
ProfileOption = Annotated[
    Path | None, typer.Option(help="Finished profile to use instead of measuring one.")
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Remove an earlier run first.")]
UncheckedOption = Annotated[
    bool,
    typer.Option(
        "--unchecked-engine",
        help="Go on with an engine version that the simulator was not compared with.",
    ),
]
