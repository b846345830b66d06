"""Run folders to look at, and pages run without a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from dashboard import options
from tests.dashboard import made_runs

APP = Path(__file__).resolve().parents[2] / "dashboard" / "app.py"
PATIENCE_S = 60.0
"""so that what a page has computed is there when it has run"""

Look = Callable[..., AppTest]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Deprecations inside Streamlit are no failures of ours."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))


@pytest.fixture(scope="session")
def storage(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs named finished, queued, killed, stopped and failed; read them, do not change them."""
    return made_runs.storage_of_all_states(finished_run, tmp_path_factory.mktemp("storage"))


@pytest.fixture(scope="session")
def fleet_place(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one finished run of fleets, called fleet."""
    root = tmp_path_factory.mktemp("fleets")
    return made_runs.fleet_with_verdict(finished_run, root / "fleet").parent


@pytest.fixture
def look() -> Iterator[Look]:
    """`look(root, page, run=..., point=..., allow_launch=...)`: a page of `dashboard.views`."""

    def run(
        root: Path, page: str = "studies", *, allow_launch: bool = False, **query: str
    ) -> AppTest:
        options.use(options.Options(root, allow_launch, patience_s=PATIENCE_S))
        app = AppTest.from_file(str(APP), default_timeout=PATIENCE_S)
        for key, value in query.items():
            app.query_params[key] = value
        if page != "studies":  # pages are functions, which `AppTest.switch_page` does not know
            app._page_hash = calc_hash(page)
        return app.run()

    before = options.current()
    yield run
    options.use(before)
