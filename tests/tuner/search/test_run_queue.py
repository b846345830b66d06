"""Queueing, resuming and stopping runs, and who may take one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from profiler.errors import ResultsError, StudyError
from tests.conftest import STUDY
from tuner.results import RunFolder
from tuner.search.run_queue import (
    claimed,
    enqueue,
    is_claimed,
    next_queued,
    queued,
    resume,
    stop,
)
from tuner.search.run_state import Phase, RunState, load_state, request_stop, save_state


def named(name: str) -> str:
    return STUDY.replace("name: small", f"name: {name}")


def test_a_queued_study_is_a_run_folder(tmp_path: Path) -> None:
    folder = enqueue(tmp_path / "new", STUDY, tmp_path)
    assert folder.path == tmp_path / "new" / "small"
    assert folder.study_file.read_text() == STUDY
    assert folder.base == tmp_path
    assert load_state(folder).phase is Phase.QUEUED


def test_the_oldest_is_next_and_damaged_folders_are_passed(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        enqueue(tmp_path, named(name), tmp_path)
    (tmp_path / "b" / "state.json").write_text("{")
    (tmp_path / "state.json").mkdir()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "state.json").mkdir()
    assert [one.folder.path.name for one in queued(tmp_path)] == ["a", "c"]
    first = next_queued(tmp_path)
    assert first is not None and first.folder.path.name == "a"


def test_two_workers_never_have_the_same_run(tmp_path: Path) -> None:
    folder = enqueue(tmp_path, STUDY, tmp_path)
    with claimed(folder) as mine, claimed(folder) as theirs:
        assert mine and not theirs
        assert is_claimed(folder)
        assert next_queued(tmp_path) is None
    assert not is_claimed(folder)
    assert next_queued(tmp_path) is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (STUDY.replace("trials: 8", "trails: 8"), "unknown key search.trails; did you mean trials"),
        (STUDY.replace("trials: 8", "trials: 0"), "search.trials: .* got 0"),
        (STUDY.replace("name: small", "name: ../x"), "name: .* got '../x'"),
        (STUDY.replace("name: small", "name: uploads"), "'uploads' is no name of a study"),
        (STUDY.replace("model: none", "model: ./none"), "engine.model: no such folder"),
        (STUDY.replace("name: small", "name: study.yaml"), "'study.yaml' is no name of a study"),
        (STUDY.replace("name: small", "name: results.json"), "'results.json' is no name"),
        ("[]", "the study must be a mapping"),
        ("seed: 2024-13-45", "the study is not valid YAML"),
        ("? [a]\n: b", "a key must be a word"),
        ("x: !!python/object/apply:os.system [ls]", "the study is not valid YAML: could not"),
    ],
)
def test_a_study_that_breaks_a_rule_leaves_nothing(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(StudyError, match=message) as refused:
        enqueue(tmp_path, text, tmp_path)
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_a_name_is_given_once(tmp_path: Path) -> None:
    enqueue(tmp_path, STUDY, tmp_path)
    with pytest.raises(ResultsError, match="there is a run called small already; give the study"):
        enqueue(tmp_path, STUDY, tmp_path)


def test_a_name_is_free_again_when_the_disk_was_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: RunFolder, state: RunState) -> None:
        raise ResultsError("no space left")

    with monkeypatch.context() as patch, pytest.raises(ResultsError, match="no space left"):
        patch.setattr("tuner.search.run_queue.save_state", full)
        enqueue(tmp_path, STUDY, tmp_path)
    assert not list(tmp_path.iterdir())
    enqueue(tmp_path, STUDY, tmp_path)


def test_nothing_is_queued_inside_a_run(tmp_path: Path) -> None:
    folder = enqueue(tmp_path, STUDY, tmp_path)
    with pytest.raises(ResultsError, match="is a run folder"):
        enqueue(folder.path, STUDY, tmp_path)


def test_stop_takes_a_waiting_run_out_and_resume_puts_it_back(tmp_path: Path) -> None:
    folder = enqueue(tmp_path, STUDY, tmp_path)
    stop(folder)
    assert load_state(folder).phase is Phase.STOPPED
    assert next_queued(tmp_path) is None
    resume(folder)
    assert load_state(folder).phase is Phase.QUEUED
    with pytest.raises(ResultsError, match="is queued; only a run that has ended goes on"):
        resume(folder)


def test_stop_asks_the_worker_that_has_the_run(tmp_path: Path) -> None:
    folder = enqueue(tmp_path, STUDY, tmp_path)
    with claimed(folder):
        stop(folder)
        assert (folder.path / "stop").exists()
        assert load_state(folder).phase is Phase.QUEUED
        with pytest.raises(ResultsError, match="is with a worker"):
            resume(folder)


def test_a_claim_forgets_an_old_request(tmp_path: Path) -> None:
    folder = enqueue(tmp_path, STUDY, tmp_path)
    request_stop(folder)
    with claimed(folder):
        assert not (folder.path / "stop").exists()


def test_a_finished_run_does_not_go_on(finished_run: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    shutil.copytree(finished_run, folder.path)
    with pytest.raises(ResultsError, match="is finished"):
        resume(folder)
    save_state(folder, RunState(Phase.FAILED, error="no GPU"))
    resume(folder)
    assert load_state(folder).error is None
