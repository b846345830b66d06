"""`stallfree dashboard`: finished runs in a browser."""

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
    """Look at finished runs in a browser, on this machine only (127.0.0.1)."""
    import importlib.util
    import os
    import sys

    from profiler.errors import ResultsError
    from tuner.results import find_runs

    if not find_runs(root):
        raise ResultsError(f"no finished run under {root}; run `stallfree tune STUDY` first")
    package = importlib.util.find_spec("dashboard")
    assert package is not None and package.submodule_search_locations is not None
    script = Path(package.submodule_search_locations[0]) / "app.py"
    options = {
        "server.address": "127.0.0.1",
        "server.port": port,
        "server.headless": "true",
        "browser.gatherUsageStats": "false",
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "streamlit", "run", str(script), *flags, "--", str(root)]
    os.execv(sys.executable, command)  # becomes the server, so that ending it ends the server
