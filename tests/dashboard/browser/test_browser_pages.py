"""Every page in a real browser, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.dashboard.browser import looking
from tests.dashboard.browser.serving import Served, serving


@pytest.fixture(scope="module")
def served_fleet(fleet_place: Path) -> Iterator[Served]:
    with serving(fleet_place) as known:
        yield known


def _look(browser: Browser, url: str, size: tuple[int, int], picture: Path) -> None:
    context = browser.new_context(viewport={"width": size[0], "height": size[1]})
    page = context.new_page()
    complaints = looking.watch(page, url[: url.index("/", 8)])
    looking.visit(page, url)
    wide = looking.too_wide(page)
    looking.stretch(page)
    page.screenshot(path=picture)
    context.close()
    assert complaints.errors == []
    assert complaints.elsewhere == []  # nothing comes from other servers
    assert wide == 0


@pytest.mark.parametrize("size", [looking.DESKTOP, looking.PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", looking.PAGES)
def test_a_page_of_a_finished_run(
    browser: Browser, served: Served, pictures: Path, name: str, size: tuple[int, int]
) -> None:
    picture = pictures / f"{name or 'studies'}-{size[0]}.png"
    _look(browser, f"{served.url}/{name}?run=finished", size, picture)
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize("size", [looking.DESKTOP, looking.PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", ["", "front", "pools"])
def test_a_page_of_a_fleet(
    browser: Browser, served_fleet: Served, pictures: Path, name: str, size: tuple[int, int]
) -> None:
    picture = pictures / f"fleet-{name or 'studies'}-{size[0]}.png"
    _look(browser, f"{served_fleet.url}/{name}?run=fleet", size, picture)
    assert picture.stat().st_size > 10_000
