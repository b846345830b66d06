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
    address: Annotated[
        str,
        typer.Option(
            help="Address to listen at. Any but this machine's own needs a token, from "
            "STALLFREE_DASHBOARD_TOKEN or --token-file, or --proxy-header."
        ),
    ] = "127.0.0.1",
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the token that browsers must give, 16 characters or more."),
    ] = None,
    proxy_header: Annotated[
        str | None,
        typer.Option(
            help="Header that an authenticating proxy sets, such as X-Forwarded-User; the proxy "
            "must strip it from what clients send."
        ),
    ] = None,
    allow_launch: Annotated[
        bool, typer.Option(help="Let pages queue, stop and resume studies.")
    ] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Look at runs in a browser; on this machine only (127.0.0.1) unless told otherwise."""
    import os
    import sys

    command = [
        sys.executable,
        "-P",
        "-m",
        "dashboard.server",
        f"--port={port}",
        f"--address={address}",
    ]
    command += [f"--token-file={token_file}"] if token_file else []
    command += [f"--proxy-header={proxy_header}"] if proxy_header is not None else []
    command += ["--allow-launch"] if allow_launch else []
    command += ["--open"] if open_ else []
    os.execv(sys.executable, [*command, "--", str(root)])  # so that ending it ends the server
