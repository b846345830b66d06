"""Navigation, the chosen run, and every page in every state of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import STUDY
from tests.dashboard.conftest import Look
from tuner.results import RunFolder
from tuner.search.run_state import Phase, RunState, save_state

PAGES = ("studies", "front", "latency", "why", "pools", "model", "traffic", "export")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("run", ["finished", "queued", "killed", "stopped", "failed"])
def test_every_page_in_every_state(look: Look, storage: Path, page: str, run: str) -> None:
    app = look(storage, page, run=run)
    assert not app.exception
    assert app.title[0].value.lower() == page
    assert app.sidebar.selectbox[0].value == run


@pytest.mark.parametrize("page", PAGES)
def test_every_page_without_any_run(look: Look, tmp_path: Path, page: str) -> None:
    app = look(tmp_path, page)
    assert not app.exception
    assert app.title[0].value.lower() == page
    assert any("stallfree tune" in info.value for info in app.info)


@pytest.mark.parametrize("page", PAGES)
def test_every_page_of_a_fleet(look: Look, fleet_place: Path, page: str) -> None:
    app = look(fleet_place, page)
    assert not app.exception
    assert app.title[0].value.lower() == page


def test_an_unknown_run_is_said(look: Look, storage: Path) -> None:
    app = look(storage, "front", run="../finished")
    assert not app.exception
    assert "No run '../finished'" in app.warning[0].value


def test_words_of_a_link_are_shown_as_they_are(look: Look, storage: Path) -> None:
    app = look(storage, "front", **{"run": "[click](http://a)", "with": "9" * 5000})
    assert not app.exception
    assert "No run '\\[click\\](http://a)'" in app.warning[0].value


@pytest.mark.parametrize("page", PAGES)
def test_why_a_run_failed_is_shown_as_it_is(look: Look, tmp_path: Path, page: str) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "study.yaml").write_text(STUDY)
    save_state(RunFolder(tmp_path / "bad"), RunState(Phase.FAILED, error="see [x](http://a)"))
    app = look(tmp_path, page)
    assert not app.exception
    assert "failed: see \\[x\\](http://a). Go on with `stallfree tune" in app.error[0].value
