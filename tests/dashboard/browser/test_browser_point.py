"""A point of the front, clicked in a real browser, and what is downloaded of it."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.dashboard.browser import looking
from tests.dashboard.browser.serving import Served, stallfree
from tuner.results import RunFolder


def _click_a_point(page: Page) -> int:
    """Click the trial, not the engine default, that is furthest from others; its number."""
    points = looking.clickable_points(page, "front-figure")
    point = next(p for p in points if p["number"] != 0)
    page.mouse.click(point["x"], point["y"])
    page.wait_for_url(f"**point={point['number']}*")
    looking.settle(page)
    return int(point["number"])


def _settings(storage: Path, number: int) -> dict[str, object]:
    points = RunFolder(storage / "finished").load_results().front
    return next(dict(p["settings"]) for p in points if p["number"] == number)


def test_a_clicked_point_shows_its_settings_and_is_in_the_url(
    browser: Browser, page: Page, served: Served, storage: Path
) -> None:
    complaints = looking.watch(page, served.url)
    looking.visit(page, f"{served.url}/front?run=finished")
    number = _click_a_point(page)
    assert f"trial {number}" in looking.words_of(page).lower()
    settings = _settings(storage, number)
    shown = looking.tables_of(page)
    for name in ("max_num_batched_tokens", "long_prefill_token_threshold"):
        assert any(name in table and str(settings[name]) in table for table in shown)
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    other = context.new_page()
    looking.visit(other, page.url)
    assert looking.query_of(other)["point"] == str(number)
    assert looking.words_of(other) == looking.words_of(page)
    context.close()
    assert complaints.errors == []


def test_the_chosen_point_stays_from_page_to_page(page: Page, served: Served) -> None:
    looking.visit(page, f"{served.url}/front?run=finished")
    number = _click_a_point(page)
    page.locator('[data-testid="stSidebarNav"]').get_by_role("link", name="Export").click()
    page.wait_for_url("**/export?*")
    looking.settle(page)
    assert looking.query_of(page)["point"] == str(number)
    page.reload()
    looking.settle(page)
    assert looking.query_of(page)["point"] == str(number)


@pytest.mark.parametrize("pick", ["recommended", "1"])
def test_the_archive_holds_what_the_command_writes(
    page: Page, served: Served, storage: Path, tmp_path: Path, pick: str
) -> None:
    looking.visit(page, f"{served.url}/export?run=finished&point={pick}")
    with page.expect_download() as begun:
        page.locator('[data-testid="stDownloadButton"] button', has_text="archive").click()
    begun.value.save_as(tmp_path / "archive.zip")
    out = tmp_path / "written"
    done = stallfree("export", storage / "finished", "--pick", pick, "--out", out)
    assert done.returncode == 0, done.stderr
    written = {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}
    archive = zipfile.ZipFile(io.BytesIO((tmp_path / "archive.zip").read_bytes()))
    assert {name: archive.read(name) for name in archive.namelist()} == written
