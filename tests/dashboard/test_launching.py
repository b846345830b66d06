"""Launching from the page: absent without the option, queued with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dashboard import options
from dashboard.launching import launch
from profiler.errors import ResultsError, StudyError
from tests.conftest import STUDY
from tests.dashboard.conftest import Look
from tuner.file_lock import try_lock
from tuner.results import RunFolder
from tuner.search.run_state import Phase, RunState, load_state, save_state


def labels(app) -> list[str]:
    return [button.label for button in app.button]


@pytest.fixture
def place(finished_run: Path, tmp_path: Path) -> Path:
    """A storage folder with a finished run."""
    shutil.copytree(finished_run, tmp_path / "small")
    return tmp_path


@pytest.mark.parametrize("run", ["finished", "queued", "stopped", "failed"])
def test_without_the_option_nothing_can_be_launched(look: Look, storage: Path, run: str) -> None:
    app = look(storage, run=run)
    assert not app.button and not app.toggle and not app.get("file_uploader")
    assert any("--allow-launch" in caption.value for caption in app.caption)


def test_without_the_option_nothing_is_queued(tmp_path: Path) -> None:
    options.use(options.Options(tmp_path))
    with pytest.raises(ResultsError, match="launching is off"):
        launch.queue(STUDY)
    assert not list(tmp_path.iterdir())


def fill(app, name: str) -> None:
    """The form's fields of a small study."""
    app.text_input[0].set_value(name)
    next(s for s in app.selectbox if s.label == "Engine").set_value("fake")
    next(t for t in app.text_input if t.label == "Model").set_value("none")


def test_the_form_queues_a_study_and_says_that_no_worker_runs(look: Look, place: Path) -> None:
    app = look(place, run="small", allow_launch=True)
    fill(app, "new")
    next(b for b in app.button if b.label == "Queue").click().run()
    assert not app.exception and not app.error
    assert "no worker runs. Start one: `stallfree worker" in app.warning[0].value
    assert app.sidebar.selectbox[0].value == "new"
    folder = RunFolder(place / "new")
    assert load_state(folder).phase is Phase.QUEUED
    assert "max_num_batched_tokens" in folder.study_file.read_text()


def test_a_worker_is_seen(look: Look, place: Path) -> None:
    handle = try_lock(place / ".worker-1")
    assert handle is not None
    with handle:
        app = look(place, run="small", allow_launch=True)
        fill(app, "new")
        next(b for b in app.button if b.label == "Queue").click().run()
    assert "a worker takes it" in app.success[0].value


def test_a_wrong_form_is_said_as_on_the_command_line(look: Look, place: Path) -> None:
    app = look(place, run="small", allow_launch=True)
    fill(app, "../new")
    next(b for b in app.button if b.label == "Queue").click().run()
    assert "the study: name: " in app.error[0].value
    assert sorted(path.name for path in place.iterdir()) == ["small"]


def test_an_empty_storage_folder_can_be_launched_in(look: Look, tmp_path: Path) -> None:
    app = look(tmp_path, allow_launch=True)
    fill(app, "first")
    next(b for b in app.button if b.label == "Queue").click().run()
    assert load_state(RunFolder(tmp_path / "first")).phase is Phase.QUEUED


def test_stop_and_resume(look: Look, place: Path) -> None:
    folder = RunFolder(place / "small")
    save_state(folder, RunState(Phase.QUEUED))
    app = look(place, run="small", allow_launch=True)
    assert "Stop small" in labels(app) and "Resume small" not in labels(app)
    next(b for b in app.button if b.label == "Stop small").click().run()
    assert load_state(folder).phase is Phase.STOPPED
    next(b for b in app.button if b.label == "Resume small").click().run()
    assert load_state(folder).phase is Phase.QUEUED
    assert "small is queued" in app.warning[0].value


def test_a_clone_is_edited_and_queued_under_another_name(look: Look, place: Path) -> None:
    app = look(place, run="small", allow_launch=True)
    app.toggle[0].set_value(True).run()
    area = app.text_area[0]
    assert area.value.lstrip().startswith("name: small-2\n")
    area.set_value(area.value.replace("trials: 8", "trials: 9"))
    next(b for b in app.button if b.label == "Queue the clone").click().run()
    assert not app.exception and not app.error
    assert "trials: 9" in (place / "small-2" / "study.yaml").read_text()
    assert load_state(RunFolder(place / "small-2")).phase is Phase.QUEUED


def test_a_clone_of_a_study_with_a_trace_elsewhere_is_refused(place: Path) -> None:
    options.use(options.Options(place, allow_launch=True))
    text = STUDY.replace("{like: azure-conv-2023", "{path: ../elsewhere.csv")
    with pytest.raises(StudyError, match=r"traffic\.path leads out of the storage folder"):
        launch.queue(text)
    options.use(options.Options())
