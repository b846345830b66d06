"""The Front page: chosen point, panel, neighbours, states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import tables
from dashboard.markdown import plain
from dashboard.words.found import sentence
from tests.dashboard import made_runs
from tests.dashboard.conftest import Look
from tuner.candidate import Verdict
from tuner.results import Results, RunFolder
from tuner.search.run_state import Phase, RunState, save_state


@pytest.fixture
def root(storage: Path) -> Path:
    return storage


def results_of(root: Path) -> Results:
    return RunFolder(root / "finished").load_results()


def shown(app: AppTest) -> str:
    """Everything that is said."""
    kinds = (app.markdown, app.caption, app.info, app.warning, app.error, app.subheader)
    return "\n".join(str(element.value) for kind in kinds for element in kind)


def charts(app: AppTest) -> int:
    return len(app.get("plotly_chart"))


def changed(finished: Path, place: Path, **changes: object) -> Path:
    """A folder with one run like `finished`, but for some of its results."""
    folder = RunFolder(made_runs.copy_of(finished, place / "run"))
    folder.save_results(replace(folder.load_results(), **changes))  # type: ignore[arg-type]
    return place


def test_the_page_leads_with_what_to_deploy_and_shows_the_recommended_point(
    look: Look, root: Path
) -> None:
    app = look(root, "front", run="finished")
    results = results_of(root)
    number = tables.number_of(results, results.recommended)
    assert app.markdown[0].value == f"**{plain(sentence(results))}**"
    assert app.markdown[1].value.startswith(f"It is trial {number} of the search.")
    assert app.subheader[0].value.startswith(f"Trial {number} (")
    assert "recommended" in app.subheader[0].value
    assert charts(app) == 2
    assert "What each difference buys" in shown(app)


def test_a_link_opens_the_same_point(look: Look, root: Path) -> None:
    app = look(root, "front", run="finished", point="0", **{"with": "1,2"})
    assert app.subheader[0].value.startswith("Trial 0 (")
    assert "engine default" in app.subheader[0].value
    assert "It does not differ from the engine default." in shown(app)
    assert any("Stop comparing with 1, 2" in button.label for button in app.button)


def test_a_point_is_chosen_from_the_list(look: Look, root: Path) -> None:
    app = look(root, "front", run="finished", point="0")
    on_front = [str(p["number"]) for p in results_of(root).front if p["on_front"]]
    for number in on_front[:2]:
        app.selectbox(key="front-point").set_value(number).run()
        assert not app.exception
        assert app.query_params["point"] == number
        assert app.subheader[0].value.startswith(f"Trial {number} (")
        assert app.selectbox(key="front-point").value == number


def test_a_point_that_is_not_there_is_said(look: Look, root: Path) -> None:
    app = look(root, "front", run="finished", point="nonsense")
    assert "no point 'nonsense'" in app.warning[0].value
    assert "recommended" in app.subheader[0].value


def test_neighbours_lead_to_each_other(look: Look, root: Path) -> None:
    app = look(root, "front", run="finished")
    near = next(button for button in app.button if button.label.startswith("Go to"))
    number = near.label.removeprefix("Go to ")
    near.click().run()
    assert app.query_params["point"] == number


def test_compared_points_are_in_the_url(look: Look, root: Path) -> None:
    app = look(root, "front", run="finished", point="0")
    app.button(key="front-compare").click().run()
    assert app.query_params["with"] == "0"
    app.button(key="front-compare-none").click().run()
    assert "with" not in app.query_params


def test_axes_can_be_chosen(look: Look, root: Path) -> None:
    app = look(root, "front", run="finished")
    across = app.selectbox(key="front-Across")
    across.set_value(next(m for m in across.options if "goodput" in str(m)))
    assert across.options[0] == "ITL p99, ms"
    app.toggle(key="front-everything").set_value(True).run()
    assert not app.exception


@pytest.mark.parametrize("part", ["Settings and figures in parallel", "Which settings matter"])
def test_all_trials_have_parts_that_are_made_when_asked_for(
    look: Look, root: Path, part: str
) -> None:
    app = look(root, "front", run="finished")
    app.button_group(key="front-more").set_value(part).run()
    assert not app.exception
    if part == "Which settings matter":
        assert "can be told from 20 on" in shown(app)
    else:
        assert charts(app) == 3


def test_nothing_feasible_is_said(look: Look, finished_run: Path, tmp_path: Path) -> None:
    results = RunFolder(finished_run).load_results()
    front = [p | {"feasible": False, "on_front": p["number"] < 2} for p in results.front]
    nothing = {"verdict": Verdict.NOTHING_MET, "meets_slo": False, "misses": {"default.x": 0.5}}
    app = look(changed(finished_run, tmp_path, front=front, **nothing), "front")
    assert not app.exception
    assert "No trial is predicted to meet the SLOs" in shown(app)
    assert app.markdown[0].value.startswith("**Nothing met the SLOs, measured on")


def test_no_predicted_point_and_refused_trials(
    look: Look, finished_run: Path, tmp_path: Path
) -> None:
    app = look(changed(finished_run, tmp_path, front=[], infeasible_trials=3), "front")
    assert not app.exception
    assert "there is no front" in app.warning[0].value
    assert "3 of 8 trials were refused" in shown(app)


def test_a_front_of_one_point(look: Look, finished_run: Path, tmp_path: Path) -> None:
    front = RunFolder(finished_run).load_results().front
    best = next(p["number"] for p in front if p["on_front"])
    one = [p | {"on_front": p["number"] == best} for p in front]
    app = look(changed(finished_run, tmp_path, front=one), "front", run="run", point=str(best))
    assert not app.exception
    assert "the front is a single point" in shown(app)
    assert "No other point of the front" in shown(app)


def test_figures_that_do_not_exist(look: Look, finished_run: Path, tmp_path: Path) -> None:
    front = RunFolder(finished_run).load_results().front
    none = {"ttft_p99_s": None, "itl_p99_s": None, "intervals": {}, "chance": {}}
    place = changed(finished_run, tmp_path, front=[front[0] | none, *front[1:]])
    app = look(place, "front", run="run", point="0")
    assert not app.exception
    assert "without end" in {metric.value for metric in app.metric}


def test_only_one_limit_or_none(look: Look, finished_run: Path, tmp_path: Path) -> None:
    app = look(changed(finished_run, tmp_path, slo={"default": {"itl_p99_s": 0.06}}), "front")
    assert not app.exception
    assert "SLOs: ITL p99 60 ms." in app.markdown[1].value


@pytest.fixture
def searching(finished_run: Path, tmp_path: Path) -> Iterator[Path]:
    """A folder with a run that is searching and holds its lock."""
    state = RunState(Phase.RUNNING, "searching 8 configurations", 8, 9)
    folder = RunFolder(made_runs.copy_of(finished_run, tmp_path / "run", state))
    with folder.lock():
        save_state(folder, state)
        yield tmp_path


def test_a_running_search_shows_its_front_so_far(look: Look, searching: Path) -> None:
    app = look(searching, "front")
    assert not app.exception
    assert "is running" in app.info[0].value
    assert "**8 trials so far:" in shown(app)
    assert charts(app) == 1


def test_a_killed_search_shows_what_it_found(look: Look, root: Path) -> None:
    app = look(root, "front", run="killed")
    assert "8 trials so far" in shown(app)
    assert charts(app) == 1


def test_a_fleet_is_said_and_compared_by_gpus(look: Look, fleet_place: Path) -> None:
    app = look(fleet_place, "front")
    assert not app.exception
    assert "The search simulated the busiest" in shown(app)
    assert "only predicted" in shown(app)
