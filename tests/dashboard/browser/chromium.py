"""Which Chromium drives the tests, and how it is started."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class NoChromiumError(Exception):
    """There is none on this machine; the message says how to get one."""


def find_chromium() -> str:
    """Path of Chromium: `STALLFREE_CHROMIUM`, else the first found on PATH."""
    wanted = os.environ.get("STALLFREE_CHROMIUM")
    for name in (wanted,) if wanted else _NAMES:
        if path := shutil.which(name):
            return path
    raise NoChromiumError(
        f"{wanted or ', '.join(_NAMES)} not found; run `make browser` (Debian, as root), or "
        "install Chromium and set STALLFREE_CHROMIUM to its path"
    )


@contextmanager
def chromium() -> Iterator[Browser]:
    """A Chromium without windows. It needs to go without a sandbox where it runs as root."""
    unboxed = ("--no-sandbox",) if os.geteuid() == 0 else ()
    path = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*_ARGUMENTS, *unboxed])
        yield browser
        browser.close()
