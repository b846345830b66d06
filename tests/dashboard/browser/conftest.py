"""A real Chromium, and runs that a real server shows it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.dashboard.browser.chromium import NoChromiumError, chromium
from tests.dashboard.browser.looking import DESKTOP
from tests.dashboard.browser.serving import Served, serving


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of one module: while it lives, nothing else in this process can run an event loop."""
    try:
        with chromium() as started:
            yield started
    except NoChromiumError as error:
        pytest.fail(str(error))


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page in a context of its own."""
    width, height = DESKTOP
    context = browser.new_context(viewport={"width": width, "height": height})
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def served(storage: Path) -> Iterator[Served]:
    """A server of runs in every state, for this machine."""
    with serving(storage) as known:
        yield known


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go: `STALLFREE_SCREENSHOTS`, else a temporary folder."""
    wanted = os.environ.get("STALLFREE_SCREENSHOTS")
    folder = Path(wanted) if wanted else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
