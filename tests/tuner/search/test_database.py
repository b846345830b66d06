"""Reading the database of trials leaves it as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import optuna
import pytest

from profiler.errors import ResultsError
from tuner.search.database import load_trials


def test_trials_are_read_without_writing(finished_run: Path, tmp_path: Path) -> None:
    database = tmp_path / "study.db"
    shutil.copy(finished_run / "study.db", database)
    before = database.read_bytes()
    database.chmod(0o444)
    assert len(load_trials(database)) == 8
    assert database.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["study.db"]


def test_a_database_without_a_study_is_said(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="no search database"):
        load_trials(tmp_path / "study.db")
    database = tmp_path / "begun.db"
    database.write_bytes(b"")
    with pytest.raises(ResultsError, match="run `stallfree tune` first"):
        load_trials(database)
    assert database.read_bytes() == b""  # tables made now would fail the search that makes them
    storage = optuna.storages.RDBStorage(f"sqlite:///{database}")
    storage.remove_session()
    storage.engine.dispose()
    with pytest.raises(ResultsError, match="run `stallfree tune` first"):
        load_trials(database)


def test_a_damaged_database_is_said_in_one_line(tmp_path: Path) -> None:
    database = tmp_path / "study.db"
    database.write_bytes(b"no database" * 100)
    with pytest.raises(ResultsError, match="go on with --resume") as refused:
        load_trials(database)
    assert "\n" not in str(refused.value)
