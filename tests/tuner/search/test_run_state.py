"""What a run says of itself, and how it is stopped."""

from __future__ import annotations

import contextlib
import signal
import threading
from pathlib import Path

import pytest

from profiler.errors import ResultsError, StudyError
from tuner.results import RunFolder
from tuner.search.progress import SilentUi
from tuner.search.run_state import (
    Phase,
    RunState,
    is_held,
    load_state,
    recorded,
    request_stop,
    save_state,
)

LONG_S = 60.0
"""longer than any test waits for a stop"""


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def test_a_stop_ends_a_wait_without_progress(folder: RunFolder) -> None:
    """As while an engine starts: the main thread waits for something, and reports nothing."""
    with folder.lock(), pytest.raises(KeyboardInterrupt), recorded(folder, SilentUi()) as ui:
        ui.stage("starting an engine")
        request_stop(folder)
        assert not threading.Event().wait(LONG_S), "the wait went on to its end"
    assert load_state(folder).phase is Phase.STOPPED
    assert load_state(folder).stage == "starting an engine"
    assert not (folder.path / "stop").exists()


def test_a_stop_is_taken_where_progress_is_reported(folder: RunFolder) -> None:
    interrupted = pytest.raises(KeyboardInterrupt)
    with folder.lock(), interrupted, recorded(folder, SilentUi()) as ui, ui.progress("x") as show:
        show(0, 2)
        request_stop(folder)
        show(2, 2)
        raise AssertionError("the run went on")
    assert load_state(folder).done == 2


def test_an_interrupt_that_got_lost_is_made_up_for(folder: RunFolder) -> None:
    with folder.lock(), pytest.raises(KeyboardInterrupt), recorded(folder, SilentUi()) as ui:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        ui.stage("next")
        raise AssertionError("the run went on")
    assert load_state(folder).phase is Phase.STOPPED


def test_tidying_up_is_not_interrupted(folder: RunFolder) -> None:
    """A second interrupt would leave processes of an engine behind."""
    tidy = False
    with folder.lock(), pytest.raises(KeyboardInterrupt), recorded(folder, SilentUi()) as ui:
        request_stop(folder)
        try:
            ui.stage("searching")
        finally:
            tidy = not threading.Event().wait(2.0)
    assert tidy


def test_a_stop_reaches_a_run_that_ignores_ctrl_c(folder: RunFolder) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with folder.lock(), pytest.raises(KeyboardInterrupt), recorded(folder, SilentUi()):
            request_stop(folder)
            threading.Event().wait(LONG_S)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_stop_older_than_the_run_counts_for_nothing(folder: RunFolder) -> None:
    save_state(folder, RunState(Phase.KILLED))
    request_stop(folder)
    with folder.lock(), recorded(folder, SilentUi()):
        assert not (folder.path / "stop").exists()
    assert load_state(folder).phase is Phase.FINISHED


def test_a_stop_while_a_worker_starts_the_run_counts(folder: RunFolder) -> None:
    save_state(folder, RunState(Phase.QUEUED))
    request_stop(folder)
    with folder.lock(), pytest.raises(KeyboardInterrupt), recorded(folder, SilentUi()):
        threading.Event().wait(LONG_S)
    assert load_state(folder).phase is Phase.STOPPED


def test_a_run_in_another_thread_is_recorded(folder: RunFolder) -> None:
    def run() -> None:
        with folder.lock(), recorded(folder, SilentUi()) as ui, ui.progress("search") as show:
            show(5, 5)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    state = load_state(folder)
    assert (state.phase, state.trials, state.done, state.total) == (Phase.FINISHED, 5, 5, 5)


def test_why_a_run_failed_is_kept(folder: RunFolder) -> None:
    refused = pytest.raises(StudyError)
    with folder.lock(), refused, recorded(folder, SilentUi()):
        raise StudyError("name: give one")
    assert load_state(folder).error == "name: give one"
    assert load_state(folder).phase is Phase.FAILED


def test_a_run_that_nobody_holds_was_killed(folder: RunFolder) -> None:
    save_state(folder, RunState(Phase.RUNNING))
    with folder.lock():
        assert is_held(folder)
        assert load_state(folder).phase is Phase.RUNNING
    assert not is_held(folder)
    assert load_state(folder).phase is Phase.KILLED


def test_a_run_that_ends_while_it_is_looked_at_was_not_killed(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(looked_at: RunFolder) -> bool:
        save_state(looked_at, RunState(Phase.FINISHED))
        return False

    save_state(folder, RunState(Phase.RUNNING))
    monkeypatch.setattr("tuner.search.run_state.is_held", held)
    assert load_state(folder).phase is Phase.FINISHED


@pytest.mark.parametrize(
    "text",
    ['{"phase": "dreaming"}', '{"phase": "queued", "done": "many"}', '{"done": 3}', "no json"],
)
def test_a_damaged_state_is_refused(folder: RunFolder, text: str) -> None:
    (folder.path / "state.json").write_text(text)
    with pytest.raises(ResultsError, match=r"state\.json"):
        load_state(folder)
