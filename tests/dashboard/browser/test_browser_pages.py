"""Every page in a real browser, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.dashboard.browser import looking
from tests.dashboard.browser.serving import Served, serving

both_sizes = pytest.mark.parametrize(
    "size", [looking.DESKTOP, looking.PHONE], ids=["desktop", "phone"]
)


@pytest.fixture(scope="module")
def served_fleet(fleet_place: Path) -> Iterator[Served]:
    with serving(fleet_place) as known:
        yield known


@dataclass(frozen=True)
class Look:
    """Opens pages in new windows, and keeps a picture of each."""

    browser: Browser
    pictures: Path

    def at(self, served: Served, name: str, run: str, size: tuple[int, int]) -> None:
        context = self.browser.new_context(viewport={"width": size[0], "height": size[1]})
        page = context.new_page()
        complaints = looking.watch(page, served.url)
        looking.visit(page, f"{served.url}/{name}?run={run}")
        title = page.locator("h1").first.inner_text()
        wide = looking.too_wide(page)
        looking.stretch(page)
        page.screenshot(path=self.pictures / f"{run}-{title.lower()}-{size[0]}.png")
        context.close()
        assert title.lower() == (name or "studies")
        assert complaints.errors == []
        assert complaints.elsewhere == []  # nothing comes from other servers
        assert wide == 0


@pytest.fixture
def look(browser: Browser, pictures: Path) -> Look:
    return Look(browser, pictures)


@both_sizes
@pytest.mark.parametrize("name", looking.PAGES)
def test_a_page_of_a_finished_run(
    look: Look, served: Served, name: str, size: tuple[int, int]
) -> None:
    look.at(served, name, "finished", size)


@both_sizes
@pytest.mark.parametrize("name", ["", "front", "pools"])
def test_a_page_of_a_fleet(
    look: Look, served_fleet: Served, name: str, size: tuple[int, int]
) -> None:
    look.at(served_fleet, name, "fleet", size)
