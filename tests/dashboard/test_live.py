"""Trials of a search that has not finished."""

from __future__ import annotations

import shutil
from pathlib import Path

from dashboard import live
from tuner.search.database import load_trials

PATIENCE_S = 60.0


def test_a_database_is_read_and_read_again_only_when_it_changed(
    finished_run: Path, tmp_path: Path
) -> None:
    database = tmp_path / "study.db"
    assert live.so_far(database, PATIENCE_S) is None
    shutil.copy(finished_run / "study.db", database)
    found = live.so_far(database, PATIENCE_S)
    assert found is not None
    trials = load_trials(database)
    assert found.finished == len(trials) == 8
    assert found.met == sum(trial.feasible for trial in trials)
    assert found.refused == 0
    assert found.trials["number"].tolist() == [trial.number for trial in trials]
    assert live.so_far(database, PATIENCE_S) is found


def test_a_file_that_is_no_database_of_trials_has_none(tmp_path: Path) -> None:
    database = tmp_path / "study.db"
    database.write_bytes(b"")
    assert live.so_far(database, PATIENCE_S) is None
