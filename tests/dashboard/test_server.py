"""`stallfree dashboard` as a process: what it refuses in one line, what it says, how it ends."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import httpx
import psutil
import pytest

from tests.dashboard.browser.serving import free_port, serving, stallfree
from tuner.cli.app import main

TOKEN = "a-token-of-the-tests"
END_S = 5.0


def _refused(*words: str | Path) -> str:
    """What a command that is wrong says."""
    done = stallfree("dashboard", *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    return done.stderr


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    assert "does not exist; run `stallfree tune STUDY` first" in _refused(tmp_path / "absent")
    (tmp_path / "file").touch()
    assert "is a file" in _refused(tmp_path / "file")


def test_code_where_it_is_started_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project of one's own may have a package called dashboard, too."""
    (tmp_path / "dashboard").mkdir()
    (tmp_path / "dashboard" / "__init__.py").write_text("raise SystemExit('not ours')")
    monkeypatch.chdir(tmp_path)
    assert "does not exist" in _refused("absent")
    report = stallfree("report", tmp_path)
    assert "holds no finished run" in report.stderr


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"port {port} is in use; give another --port" in _refused(tmp_path, "--port", port)


def test_addresses_that_cannot_be(tmp_path: Path) -> None:
    assert "no address of this machine" in _refused(tmp_path, "--address", "192.0.2.1")
    why = _refused(tmp_path, "--address", "0.0.0.0", "--port", str(free_port()))
    assert "STALLFREE_DASHBOARD_TOKEN" in why and "--proxy-header" in why


def test_an_empty_folder_is_served_and_the_server_ends_at_once(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with serving(tmp_path / "empty") as served:
        assert served.url in served.said and "this machine only" in served.said
        assert httpx.get(f"{served.url}/_stcore/health").text == "ok"
        family = psutil.Process(served.process.pid).children(recursive=True)
        assert family  # the process that computes
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(END_S) == -signal.SIGINT
        assert psutil.wait_procs(family, END_S)[1] == []


def test_the_token_is_nowhere_to_be_read(tmp_path: Path) -> None:
    with serving(tmp_path, "--address", "0.0.0.0", env={"STALLFREE_DASHBOARD_TOKEN": TOKEN}) as it:
        assert "asks for the token" in it.said and TOKEN not in it.said
        assert httpx.get(it.url).status_code == 401
        process = psutil.Process(it.process.pid)
        assert TOKEN not in " ".join(process.cmdline())
        for child in process.children(recursive=True):
            assert TOKEN not in str(child.environ()) + str(child.cmdline())


def test_the_command_becomes_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[list[str]] = []
    monkeypatch.setattr("os.execv", lambda path, words: begun.append(words))
    words = ["dashboard", "runs", "--port", "8600", "--address", "::1", "--token-file", "t"]
    monkeypatch.setattr("sys.argv", ["stallfree", *words, "--allow-launch", "--open"])
    try:
        main()
    except SystemExit as end:
        assert not end.code
    assert begun[0][1:] == [
        "-P", "-m", "dashboard.server", "--port=8600", "--address=::1", "--token-file=t",
        "--allow-launch", "--open", "--", "runs",
    ]  # fmt: skip
