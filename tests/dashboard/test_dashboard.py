"""Every page of the dashboard on a finished run, and its figures on their own."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

from dashboard import data, figures
from tuner.results import RunFolder

pytest.importorskip("streamlit")
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # inside streamlit
]
ROOT = Path(__file__).resolve().parents[2]


def app_on(folder: Path, monkeypatch: pytest.MonkeyPatch):
    from streamlit.testing.v1 import AppTest

    monkeypatch.setattr(sys, "argv", ["app.py", str(folder)])
    return AppTest.from_file(str(ROOT / "dashboard" / "app.py"), default_timeout=60)


def test_studies_page(finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_on(finished_run.parent, monkeypatch).run()
    assert not app.exception
    assert app.title[0].value == "Studies"
    assert list(app.dataframe[0].value["run"]) == ["small"]
    table = app.dataframe[1].value
    assert set(table["source"]) >= {"predicted", "measured"}
    predicted = table[table["source"] == "predicted"]
    assert all(text.endswith("/8") for text in predicted["chance to meet"])
    assert all("-" in text for text in predicted["ttft_p99_s, 90 %"])


def test_front_page(finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamlit.testing.v1 import AppTest

    monkeypatch.setattr(sys, "argv", ["app.py", str(finished_run)])

    def only_front() -> None:
        from dashboard.views import front

        front.page()

    app = AppTest.from_function(only_front, default_timeout=60).run()
    assert not app.exception
    assert app.title[0].value == "Front"
    assert len(app.get("plotly_chart")) == 1


def test_no_run_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_on(tmp_path, monkeypatch).run()
    assert not app.exception
    assert "stallfree tune" in app.info[0].value


def test_front_figure_draws_trials_candidates_and_limits(finished_run: Path) -> None:
    results = RunFolder(finished_run).load_results()
    trials, confirmed = data.trials(results), data.confirmed(results)
    figure = figures.front_figure(trials, confirmed, results.slo["default"])
    names = [trace.name for trace in figure.data]
    assert sum(len(t.x) for t in figure.data if t.name.startswith("predicted")) == len(trials)
    assert sum("measured" in name for name in names) == 2
    assert any("engine default" in name for name in names)
    measured = next(t for t in figure.data if "engine default" in t.name)
    assert results.default.measured is not None
    assert measured.y[1] == pytest.approx(1e3 * results.default.measured["ttft_p99_s"])
    assert len(figure.layout.shapes) == 2


def test_front_figure_without_candidates_and_limits() -> None:
    trials = pd.DataFrame(
        {"itl_p99_s": [0.1], "ttft_p99_s": [1.0], "kind": ["feasible"], "settings": ["x"]}
    )
    figure = figures.front_figure(trials, pd.DataFrame(), {})
    assert figure.layout.shapes == ()
    assert [list(t.x) for t in figure.data if len(t.x)] == [[100.0]]
