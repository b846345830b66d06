"""Pictures of every page of a run, on a desk and on a phone, light and dark.

python -m tests.dashboard.browser.screenshots STORAGE FOLDER [--run NAME] [--point NUMBER]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode

from playwright.sync_api import Browser

from tests.dashboard.browser import looking
from tests.dashboard.browser.chromium import chromium
from tests.dashboard.browser.serving import serving

_SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def main() -> None:
    """Take them, and say where they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("storage", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--run", help="default: the first")
    parser.add_argument("--point", help="default: the recommended one")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    query = {key: value for key in ("run", "point") if (value := getattr(given, key))}
    with serving(given.storage) as served, chromium() as browser:
        for size in (looking.DESKTOP, looking.PHONE):
            for scheme in _SCHEMES:
                _take(browser, f"{served.url}/{{}}?{urlencode(query)}", given.folder, size, scheme)


def _take(
    browser: Browser,
    url: str,
    folder: Path,
    size: tuple[int, int],
    scheme: Literal["light", "dark"],
) -> None:
    """All pages at one width in one colour scheme; a page is pictured to its end."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme
    )
    page = context.new_page()
    for name in looking.PAGES:
        looking.visit(page, url.format(name))
        looking.stretch(page)
        place = folder / f"{name or 'studies'}-{size[0]}-{scheme}.png"
        page.screenshot(path=place)
        page.set_viewport_size({"width": size[0], "height": size[1]})
        print(place, flush=True)
    context.close()


if __name__ == "__main__":
    main()
