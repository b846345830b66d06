"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

UncheckedOption = Annotated[
    bool,
    typer.Option(
        "--unchecked-engine",
        help="Go on with an engine version that the simulator was not compared with.",
    ),
]
