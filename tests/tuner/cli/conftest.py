"""The commands in this process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tuner.cli.app import main


@pytest.fixture
def stallfree(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs a command in this process: (exit code, stdout, stderr)."""

    def run(*words: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["stallfree", *(str(w) for w in words)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def in_study_folder(monkeypatch: pytest.MonkeyPatch, finished_run: Path, small_study: Path) -> Path:
    """The study file, with its finished run in the default place."""
    assert finished_run.is_dir()
    monkeypatch.chdir(small_study.parent)
    return small_study
