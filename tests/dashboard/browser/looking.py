"""How tests look at pages: when one has settled, what it complained of, where a point is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import ConsoleMessage, Page, Request, TimeoutError

PAGES = ("", "front", "latency", "why", "pools", "model", "traffic", "export")
"""paths; the first is the page Studies"""
DESKTOP, PHONE = (1440, 900), (390, 844)
PATIENCE_S = 60.0

_SETTLED = """() => {
    const app = document.querySelector('[data-testid="stApp"]');
    const busy = '[data-stale="true"], [data-testid="stSkeleton"], [data-testid="stProgress"]';
    return app && app.dataset.testScriptState === 'notRunning'
        && app.dataset.testConnectionState === 'CONNECTED'
        && document.querySelector('h1') && !document.querySelector(busy);
}"""
_LONELIEST = """(figure) => {
    const x = figure._fullLayout.xaxis, y = figure._fullLayout.yaxis;
    const box = figure.getBoundingClientRect(), points = [];
    figure._fullData.forEach((trace) => (trace.x || []).forEach((_, i) => {
        const known = trace.customdata && trace.customdata[i];
        const number = Array.isArray(known) ? known[0] : known;
        const at = [x._offset + x.d2p(trace.x[i]), y._offset + y.d2p(trace.y[i])];
        const seen = x.d2p(trace.x[i]) > 5 && x.d2p(trace.x[i]) < x._length - 5
            && y.d2p(trace.y[i]) > 5 && y.d2p(trace.y[i]) < y._length - 5;
        points.push({number, x: box.left + at[0], y: box.top + at[1], seen});
    }));
    const far = (p) => Math.min(...points.filter((q) => q.number !== p.number)
        .map((q) => Math.hypot(p.x - q.x, p.y - q.y)));
    const known = points.filter((p) => p.seen && p.number !== undefined && p.number !== null);
    return known.sort((p, q) => far(q) - far(p));
}"""


@dataclass
class Complaints:
    """What went wrong on a page, and what it asked other servers for."""

    errors: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)


def watch(page: Page, url: str) -> Complaints:
    """Collects from now on; `url` is the server's."""
    seen = Complaints()

    def console(message: ConsoleMessage) -> None:
        probe = "/_stcore/" in message.location["url"]  # Streamlit looks for its base path
        if message.type == "error" and not probe:
            seen.errors.append(message.text)

    def request(asked: Request) -> None:
        if not asked.url.startswith((url, "data:", "blob:")):
            seen.elsewhere.append(asked.url)

    page.on("console", console)
    page.on("request", request)
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    return seen


def settle(page: Page) -> None:
    """Wait until the page's script has run, what it computes included."""
    page.wait_for_function(_SETTLED, timeout=1e3 * PATIENCE_S)


def visit(page: Page, url: str) -> None:
    """Open `url` and wait until it has settled."""
    page.goto(url)
    settle(page)


def query_of(page: Page) -> dict[str, str]:
    """Parameters in the page's URL."""
    return {key: values[-1] for key, values in parse_qs(urlsplit(page.url).query).items()}


def words_of(page: Page) -> str:
    """The words of the page's main part, without those inside figures' and tables' canvases."""
    return page.locator('[data-testid="stMain"]').inner_text()


def tables_of(page: Page) -> list[str]:
    """The words in each table of the page; a table draws itself once it is in sight."""
    found = []
    for table in page.locator('[data-testid="stDataFrame"]').all():
        table.scroll_into_view_if_needed()
        table.locator('[role="gridcell"]').first.wait_for(state="attached")
        found.append(table.evaluate("(table) => table.textContent"))
    return found


def clickable_points(page: Page, key: str) -> list[dict[str, Any]]:
    """Points of trials in the figure whose key begins with `key`, which is scrolled into view:
    number of the trial, x and y in the window; those with nothing near first."""
    figure = page.locator(f'[class*="st-key-{key}"] .js-plotly-plot').first
    figure.scroll_into_view_if_needed()
    points: list[dict[str, Any]] = figure.evaluate(_LONELIEST)
    return points


def fits(page: Page) -> bool:
    """Whether the page does not scroll sideways, once its figures have taken the window's width."""
    fit = (
        "() => [document.documentElement, document.body,"
        " document.querySelector('[data-testid=\"stMain\"]')]"
        ".every((e) => e.scrollWidth <= e.clientWidth)"
    )
    try:
        page.wait_for_function(fit, timeout=5000)
    except TimeoutError:
        return False
    return True


def stretch(page: Page) -> None:
    """Make the window as high as the page: its main part scrolls by itself, so that a picture of
    the whole page would end with the window."""
    main = "document.querySelector('[data-testid=\"stMain\"]')"
    height = int(page.evaluate(f"() => {main}.scrollHeight"))
    width = page.viewport_size["width"] if page.viewport_size else DESKTOP[0]
    page.set_viewport_size({"width": width, "height": max(height, DESKTOP[1])})
    settle(page)
