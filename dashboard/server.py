"""The server: `python -m dashboard.server FOLDER --port 8501`, as `stallfree dashboard` starts it.

Streamlit's app as an ASGI application, so that requests can be turned away before any page runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from streamlit.starlette import App

from dashboard import options, work


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(prog="stallfree dashboard")
    parser.add_argument("root", type=Path)
    parser.add_argument("--port", type=int, default=8501)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--allow-launch", action="store_true")
    given = parser.parse_args()
    options.use(options.Options(given.root, given.allow_launch))
    work.warm()
    App(Path(__file__).with_name("app.py")).run(
        config={
            "server.address": given.address,
            "server.port": given.port,
            "server.headless": True,
            "server.fileWatcherType": "none",
            "server.maxUploadSize": options.current().max_upload_mb,
            "browser.gatherUsageStats": False,
        }
    )


if __name__ == "__main__":
    main()
