"""The server: `python -m dashboard.server FOLDER --port 8501`, as `stallfree dashboard` starts it.

Streamlit's app as an ASGI application behind a gate, so that requests are turned away before any
page runs.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import pkgutil
import signal
import socket
import threading
import webbrowser
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from dashboard import options, work
from dashboard.entrance import access
from dashboard.uploads import passing
from profiler.errors import InputError, MissingExtraError
from tuner.cli.app import guarded


def main() -> None:
    """Serve until the process is ended. Raises `InputError` and `MissingExtraError`."""
    given = _arguments()
    _end_on_signals()
    _check_root(given.root)
    _check_place(given.address, given.port)
    who = access.access_for(
        given.address, given.port, given.token_file, given.proxy_header, os.environ
    )
    os.environ.pop(access.TOKEN_VARIABLE, None)  # not for the processes that are started here
    options.use(options.Options(given.root, given.allow_launch))
    app = _app(who, _started(given, who))
    warming = work.warm()
    _prepare_pages()
    warming.exception()  # a first page is slow beside it; what is wrong with it, a job will say
    app.run(config=_config(given))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="stallfree dashboard")
    parser.add_argument("root", type=Path)
    parser.add_argument("--port", type=int, default=8501)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--token-file", type=Path)
    parser.add_argument("--proxy-header")
    parser.add_argument("--allow-launch", action="store_true")
    parser.add_argument("--open", action="store_true")
    return parser.parse_args()


def _check_root(root: Path) -> None:
    """Raise `InputError` when no runs can be looked for in `root`; it may be empty."""
    try:
        next(os.scandir(root), None)
    except FileNotFoundError:
        raise InputError(
            f"{root} does not exist; run `stallfree tune STUDY` first, or give the folder that "
            "holds your run folders"
        ) from None
    except NotADirectoryError:
        raise InputError(f"{root} is a file; give the folder that holds your run folders") from None
    except OSError as error:
        raise InputError(f"{root} cannot be read: {error.strerror}") from error


def _check_place(address: str, port: int) -> None:
    """Raise `InputError` when the server could not listen there."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
    except OSError as error:
        ways_out = {
            errno.EADDRINUSE: f"port {port} is in use; give another --port",
            errno.EACCES: f"port {port} is not for ordinary users; give a --port above 1023",
        }
        other = f"{address} is no address of this machine; give one of its own, or 0.0.0.0 for all"
        raise InputError(ways_out.get(error.errno or 0, other)) from error


def _app(who: access.Access, started: Callable[[], None]) -> Any:
    """Streamlit's application behind the gate. Raises `MissingExtraError`."""
    try:
        from starlette.middleware import Middleware
        from streamlit.starlette import App

        from dashboard.entrance.gate import Gate
    except ImportError as error:
        raise MissingExtraError(
            f"the dashboard needs streamlit 1.67 or newer ({error}); pip install -U streamlit"
        ) from error
    return App(
        Path(__file__).with_name("app.py"),
        lifespan=_life(started),
        middleware=[Middleware(Gate, access=who)],
    )


def _life(started: Callable[[], None]) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def life(app: Any) -> AsyncIterator[None]:
        del app
        _end_on_signals()  # again: uvicorn's own handlers, set meanwhile, wait for browsers
        started()
        yield

    return life


def _started(given: argparse.Namespace, who: access.Access) -> Callable[[], None]:
    """Says where the server is; called when it listens."""

    def say() -> None:
        url = access.url_of(given.address, given.port)
        print(f"Stallfree dashboard of {given.root}: {url} ({who.in_words()})", flush=True)
        if given.open:
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    return say


def _end_on_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> None:
    """End at once, by the signal that asked for it; nothing here is left half written."""
    del frame
    work.stop()
    passing.forget()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def _prepare_pages() -> None:
    """Import and read ahead what the first page needs, so that it is quick."""
    import plotly.graph_objects as go

    from dashboard import data, views

    for module in pkgutil.iter_modules(views.__path__):
        importlib.import_module(f"dashboard.views.{module.name}")
    go.Figure(go.Scatter(x=[0.0], y=[0.0])).to_json()
    data.warm()


def _config(given: argparse.Namespace) -> dict[str, Any]:
    """Streamlit's settings; those that protect are given, lest a file elsewhere turn them off."""
    return {
        "server.address": given.address,
        "server.port": given.port,
        "server.headless": True,
        "server.fileWatcherType": "none",
        "server.baseUrlPath": "",
        "server.maxUploadSize": options.current().max_upload_mb,
        "server.enableCORS": True,
        "server.enableXsrfProtection": True,
        "server.enableStaticServing": False,
        "global.developmentMode": False,
        "client.showErrorDetails": "none",
        "client.toolbarMode": "viewer",
        "logger.hideWelcomeMessage": True,
        "browser.gatherUsageStats": False,
    }


if __name__ == "__main__":
    guarded(main)
