"""The worker: real studies on the fake engine, and processes that end in every way."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from tests.conftest import STUDY
from tuner.results import RunFolder
from tuner.search.run_queue import enqueue, resume, stop
from tuner.search.run_state import Phase, load_state
from tuner.search.worker import LOG, Worker, is_at_work

ROOT = Path(__file__).resolve().parents[3]
TUNE = (sys.executable, "-P", "-m", "tuner.cli", "tune", "--resume")


class Heard:
    """Lines of a worker; `react` is called once, when one begins a search."""

    def __init__(self, react: Callable[[], None] = lambda: None) -> None:
        self.lines: list[str] = []
        self.react = react

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        if "searching" in line:
            self.react()


@pytest.fixture
def drain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Heard]:
    """Run the queue in `tmp_path` to its end."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def run(react: Callable[[], None] = lambda: None, command: Sequence[str] = TUNE) -> Heard:
        heard = Heard(react)
        Worker(tmp_path, command, heard, poll_s=0.05).run(once=True)
        return heard

    return run


def script(text: str) -> list[str]:
    """A process that does `text`, with its run folder in `folder`."""
    begin = (
        "import pathlib, sys; from tuner.results import RunFolder\n"
        "folder = RunFolder(pathlib.Path(sys.argv[1]))\n"
    )
    return [sys.executable, "-c", f"{begin}{text}"]


def children() -> list[int]:
    """Processes of this one that run a study; others, of earlier tests, are none of ours."""
    every = psutil.Process().children()
    return [child.pid for child in every if child.is_running() and _runs_a_study(child)]


def _runs_a_study(process: psutil.Process) -> bool:
    words = " ".join(process.cmdline())
    return "tuner.cli" in words or "tuner.results" in words


def kill_child() -> None:
    (child,) = children()
    os.kill(child, signal.SIGKILL)


def test_stopped_then_killed_then_finished(drain, finished_run: Path, tmp_path: Path) -> None:
    endless = STUDY.replace("trials: 8", "trials: 100000").replace(
        "{budget_s: 40}", f"{{path: {finished_run / 'profile'}}}"
    )
    folder = enqueue(tmp_path, endless, tmp_path)
    heard = drain(lambda: stop(folder))
    assert heard.lines[-1] == "small: stopped"
    assert load_state(folder).phase is Phase.STOPPED
    resume(folder)
    heard = drain(kill_child)
    assert load_state(folder).phase is Phase.KILLED
    assert heard.lines[-1] == "small: killed"
    resume(folder)
    folder.study_file.write_text(endless.replace("trials: 100000", "trials: 8"))
    heard = drain()
    assert heard.lines[-1] == "small: finished"
    assert folder.load_results().trials >= 8
    assert (folder.path / "bundle").is_dir()


def test_a_study_that_fails_does_not_keep_the_next_from_running(drain, tmp_path: Path) -> None:
    command = script(
        "from tuner.search.run_state import recorded; from tuner.search.progress import SilentUi\n"
        "if folder.path.name == 'bad': sys.exit('error: no such model; check engine.model')\n"
        "if folder.path.name == 'mute': sys.exit(3)\n"
        "with folder.lock(), recorded(folder, SilentUi()): pass"
    )
    for name in ("bad", "mute", "good"):
        enqueue(tmp_path, STUDY.replace("name: small", f"name: {name}"), tmp_path)
    heard = drain(command=command)
    states = [load_state(RunFolder(tmp_path / name)) for name in ("bad", "mute", "good")]
    assert [s.phase for s in states] == [Phase.FAILED, Phase.FAILED, Phase.FINISHED]
    assert states[0].error == "no such model; check engine.model"
    assert "it ended with code 3 before the run began" in str(states[1].error)
    assert "bad: failed: no such model; check engine.model" in heard.lines
    assert (tmp_path / "bad" / LOG).read_text().startswith("error: no such model")


def test_ctrl_c_ends_the_study_and_keeps_it(tmp_path: Path) -> None:
    command = script(
        "from tuner.search.run_state import recorded; from tuner.search.progress import SilentUi\n"
        "import threading\n"
        "with folder.lock(), recorded(folder, SilentUi()) as ui:\n"
        "    ui.stage('searching'); threading.Event().wait(60)"
    )
    folder = enqueue(tmp_path, STUDY, tmp_path)
    heard = Heard(lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        Worker(tmp_path, command, heard).run(once=True)
    assert heard.lines[-2:] == ["small: stopping", "small: stopped"]
    assert load_state(folder).phase is Phase.STOPPED
    assert not children()


def test_ctrl_c_ends_a_worker_whose_run_folder_is_damaged(tmp_path: Path) -> None:
    folder = enqueue(tmp_path, STUDY, tmp_path)
    command = script(
        "from tuner.search.run_state import *; import threading\n"
        "with folder.lock():\n"
        "    save_state(folder, RunState(Phase.RUNNING, 'searching')); threading.Event().wait(60)"
    )

    def damage() -> None:
        (folder.path / "state.json").write_text("{")
        signal.raise_signal(signal.SIGINT)

    heard = Heard(damage)
    with pytest.raises(KeyboardInterrupt):
        Worker(tmp_path, command, heard).run(once=True)
    assert "state.json cannot be read" in heard.lines[-1]
    assert not children()


def test_ctrl_c_before_the_run_has_begun(tmp_path: Path) -> None:
    folder = enqueue(tmp_path, STUDY, tmp_path)

    def say(line: str) -> None:
        if line.endswith("starting"):
            signal.setitimer(signal.ITIMER_REAL, 0.2)

    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with pytest.raises(KeyboardInterrupt):
            Worker(tmp_path, script("import time; time.sleep(60)"), say).run(once=True)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert load_state(folder).phase is Phase.STOPPED


def test_a_folder_that_cannot_be_run_is_tried_once(drain, tmp_path: Path) -> None:
    folder = enqueue(tmp_path, STUDY, tmp_path)
    (folder.path / LOG).mkdir()
    heard = drain(command=script("pass"))
    assert sum("cannot be written" in line for line in heard.lines) == 1


def test_a_worker_is_known_while_it_works(drain, tmp_path: Path) -> None:
    enqueue(tmp_path, STUDY, tmp_path)
    known = []
    drain(command=script("pass"))
    assert not is_at_work(tmp_path)
    enqueue(tmp_path, STUDY.replace("name: small", "name: other"), tmp_path)
    Worker(tmp_path, script("pass"), lambda line: known.append(is_at_work(tmp_path))).run(once=True)
    assert known and all(known)
