"""The search: default first, reproducible, resumable, parallel, and clear when it cannot."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from fake_problem import FakeProblem, fake_problem

from profiler.engine_config import EngineConfig
from profiler.errors import ResultsError, SimulationError
from tuner.metrics import Metrics
from tuner.search import database
from tuner.search.database import load_trials
from tuner.search.optimize import SearchOptions, search
from tuner.search.pareto import Trial


def silent(done: int, total: int) -> None:
    del done, total


def run(database: Path, trials: int, *, seed: int = 3, workers: int = 1) -> list[Trial]:
    return search(fake_problem(), database, SearchOptions(trials, workers, seed), silent)


@pytest.fixture(scope="module")
def forty(tmp_path_factory: pytest.TempPathFactory) -> list[Trial]:
    return run(tmp_path_factory.mktemp("search") / "s.db", 40)


def test_the_engine_default_is_trial_0(tmp_path: Path) -> None:
    trials = run(tmp_path / "s.db", 5)
    assert trials[0].settings == {"max_model_len": 4096}
    assert trials[0].metrics is not None
    assert trials[0].metrics.ttft_p99_s == pytest.approx(200 / 2048 + 5 / 128)
    assert [t.number for t in trials] == list(range(5))


def test_search_finds_what_meets_the_slos(forty: list[Trial]) -> None:
    assert not forty[0].feasible  # budget 2048 stalls decodes
    assert sum(t.feasible for t in forty[20:]) > sum(t.feasible for t in forty[:20])


def test_refused_settings_are_kept_with_their_reason(forty: list[Trial]) -> None:
    refused = [t for t in forty if t.metrics is None]
    assert refused
    assert all("seven" in str(t.refused) or "eleven" in str(t.refused) for t in refused)
    assert not any(t.feasible for t in refused)


def test_same_seed_same_trials(tmp_path: Path) -> None:
    one, two = run(tmp_path / "1.db", 24), run(tmp_path / "2.db", 24)
    other = run(tmp_path / "3.db", 4, seed=4)
    assert one == two
    assert [t.settings for t in one[:4]] != [t.settings for t in other]


class Killed(BaseException):
    """Stands for whatever ends a process in the middle of a trial."""


class DyingProblem(FakeProblem):
    """Goes away in the middle of its eleventh evaluation."""

    calls = 0

    def evaluate(self, config: EngineConfig) -> Metrics:
        DyingProblem.calls += 1
        if DyingProblem.calls == 11:
            raise Killed
        return super().evaluate(config)


def test_a_killed_run_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    p = fake_problem()
    dying = DyingProblem(p.trace, p.model, p.slo, p.fixed, p.resolved, p.num_kv_blocks, p.space)
    with pytest.raises(Killed):
        search(dying, tmp_path / "killed.db", SearchOptions(24, 1, 3), silent)
    assert len(load_trials(tmp_path / "killed.db")) == 10
    assert run(tmp_path / "killed.db", 24) == run(tmp_path / "whole.db", 24)


def test_more_trials_later(tmp_path: Path) -> None:
    few = run(tmp_path / "s.db", 8)
    more = run(tmp_path / "s.db", 12)
    assert more[:8] == few
    assert len(more) == len(run(tmp_path / "s.db", 5)) == 12


def test_workers_share_the_trials(tmp_path: Path) -> None:
    seen: list[int] = []
    options = SearchOptions(24, 2, 3)
    trials = search(fake_problem(), tmp_path / "s.db", options, lambda d, t: seen.append(d))
    assert len(trials) == 24
    assert trials[0].settings == {"max_model_len": 4096}
    assert seen[-1] == 24
    assert len({repr(t.settings) for t in trials}) > 15  # workers do not repeat each other


def test_a_default_that_cannot_be_simulated_ends_the_search(tmp_path: Path) -> None:
    problem = replace(fake_problem(), resolved=EngineConfig(max_num_seqs=7))
    with pytest.raises(SimulationError, match="seven"):
        search(problem, tmp_path / "s.db", SearchOptions(3, 1, 0), silent)


def test_a_damaged_database_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(ResultsError, match=r"search database .*not a database.*--resume") as caught:
        run(path, 3)
    assert "\n" not in str(caught.value)


def test_a_locked_database_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_LOCK_TIMEOUT_S", 0.01)
    path = tmp_path / "s.db"
    run(path, 2)
    other = sqlite3.connect(path)
    try:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ResultsError, match=r"database is locked.*no other run"):
            run(path, 4)
    finally:
        other.close()


def test_no_database_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="stallfree tune"):
        load_trials(tmp_path / "none.db")


def test_the_database_is_optunas_own(tmp_path: Path) -> None:
    run(tmp_path / "s.db", 4)
    storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path / 's.db'}")
    try:
        study = optuna.load_study(study_name="stallfree", storage=storage)
        assert len(study.trials) == 4
        assert set(study.trials[0].constraints) == {"default.ttft_p99_s", "default.itl_p99_s"}
    finally:
        storage.remove_session()
        storage.engine.dispose()
