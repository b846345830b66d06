"""Every page in a real browser, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.dashboard.browser import looking
from tests.dashboard.browser.serving import Served, serving


@pytest.fixture(scope="module")
def served_fleet(fleet_place: Path) -> Iterator[Served]:
    with serving(fleet_place) as known:
        yield known


@dataclass(frozen=True)
class Look:
    """Opens pages in new windows, and keeps pictures of each."""

    browser: Browser
    pictures: Path

    def at(self, served: Served, name: str, run: str) -> None:
        """The page on a desk, then the same on a phone."""
        width, height = looking.DESKTOP
        context = self.browser.new_context(viewport={"width": width, "height": height})
        page = context.new_page()
        complaints = looking.watch(page, served.url)
        looking.visit(page, f"{served.url}/{name}?run={run}")
        title = page.locator("h1").first.inner_text()
        fits = []
        for width, height in (looking.DESKTOP, looking.PHONE):
            page.set_viewport_size({"width": width, "height": height})
            looking.settle(page)
            fits.append(looking.fits(page))
            looking.stretch(page)
            page.screenshot(path=self.pictures / f"{run}-{title.lower()}-{width}.png")
        context.close()
        assert title.lower() == (name or "studies")
        assert complaints.errors == []
        assert complaints.elsewhere == []  # nothing comes from other servers
        assert fits == [True, True]


@pytest.fixture
def look(browser: Browser, pictures: Path) -> Look:
    return Look(browser, pictures)


@pytest.mark.parametrize("name", looking.PAGES)
def test_a_page_of_a_finished_run(look: Look, served: Served, name: str) -> None:
    look.at(served, name, "finished")


@pytest.mark.parametrize("name", ["", "front", "pools"])
def test_a_page_of_a_fleet(look: Look, served_fleet: Served, name: str) -> None:
    look.at(served_fleet, name, "fleet")
