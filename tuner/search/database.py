"""The database of trials: SQLite in Optuna's schema, which survives a kill."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import optuna
from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from profiler.errors import ResultsError
from tuner.metrics import Metrics
from tuner.search.pareto import Trial

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
_STUDY = "stallfree"
_LOCK_TIMEOUT_S = 60.0
_WAY_OUT = (
    "make sure that no other run uses it and that the disk has space, then go on with --resume"
)
IN_MEMORY = Path(":memory:")
"""a `database` that is gone with the search, for one worker"""


def require_trials(database: Path) -> None:
    """Raise `ResultsError` when no search was ever begun in `database`."""
    if not database.exists():
        raise ResultsError(_missing(database))


def _missing(database: Path) -> str:
    return f"no search database {database}; run `stallfree tune` first"


def load_trials(database: Path) -> list[Trial]:
    """The finished trials that `search` left in `database`, or has so far; writes nothing. Raises
    `ResultsError`."""
    require_trials(database)
    if not _is_begun(database):  # Optuna would make the tables, and a search that does too fails
        raise ResultsError(_missing(database))
    with _storage(database) as storage:
        return rows_of(optuna.load_study(study_name=_STUDY, storage=storage))


def _is_begun(database: Path) -> bool:
    """Whether the study is there, after which nothing more is made. Raises `ResultsError`."""
    place = f"file:{quote(str(database.resolve()))}?mode=ro"
    try:
        with closing(sqlite3.connect(place, _LOCK_TIMEOUT_S, uri=True)) as known:
            return known.execute("SELECT 1 FROM studies").fetchone() is not None
    except sqlite3.Error as error:
        if "no such table" in str(error):
            return False
        raise ResultsError(f"search database {database}: {error}; {_WAY_OUT}") from error


@contextmanager
def open_study(database: Path) -> Iterator[optuna.Study]:
    """The study in `database`, made if missing; its connections are closed at the end.

    Optuna says nothing from here on but its errors.
    """
    with _storage(database) as storage:
        yield optuna.create_study(
            storage=storage,
            study_name=_STUDY,
            directions=["minimize", "minimize", "maximize"],
            load_if_exists=True,
        )


@contextmanager
def _storage(database: Path) -> Iterator[optuna.storages.RDBStorage]:
    """The database, whose connections are closed at the end."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = None
    try:
        storage = optuna.storages.RDBStorage(
            f"sqlite:///{database}",
            engine_kwargs={"connect_args": {"timeout": _LOCK_TIMEOUT_S}},
        )
        yield storage
    except (SQLAlchemyError, StorageInternalError) as error:
        cause = " ".join(str(error.__cause__ or error).split())
        raise ResultsError(f"search database {database}: {cause}; {_WAY_OUT}") from error
    finally:
        if storage is not None:
            storage.remove_session()
            storage.engine.dispose()


def finished_trials(study: optuna.Study) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=FINISHED)


def release_unfinished(study: optuna.Study) -> None:
    """Mark what a killed run left running as failed, so that no sampler waits for it."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)


def rows_of(study: optuna.Study) -> list[Trial]:
    """The finished trials by number; the engine default is the first."""
    rows = []
    for number, trial in enumerate(sorted(finished_trials(study), key=lambda t: t.number)):
        attrs = trial.user_attrs
        metrics = _metrics(attrs["metrics"]) if "metrics" in attrs else None
        worth = None if metrics is None else trial.values[-1]
        rows.append(Trial(number, attrs["settings"], metrics, attrs.get("refused"), worth))
    return rows


def _metrics(plain: dict[str, Any]) -> Metrics:
    try:
        return Metrics.from_dict(plain)
    except KeyError as error:
        raise ResultsError(
            f"the search database is of another Stallfree version (no {error} in its trials); run "
            "the study again with --fresh"
        ) from error
