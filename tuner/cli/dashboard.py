"""`stallfree dashboard`: runs in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def dashboard(
    root: Annotated[
        Path, typer.Argument(help="Folder with run folders, or one run folder.")
    ] = Path("stallfree-runs"),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 8501,
) -> None:
    """Look at runs in a browser, on this machine only (127.0.0.1)."""
    import os
    import sys

    command = [sys.executable, "-m", "dashboard.server", str(root), "--port", str(port)]
    os.execv(sys.executable, command)  # becomes the server, so that ending it ends the server
