"""The search over fleets: default, starting points, conditional axes, resume, workers."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import optuna
import pytest
from fleet_problems import ClosedForm, closed_form, space

from tuner.fleet_plan import FleetPlan, plan_of
from tuner.metrics import Metrics
from tuner.search.database import load_trials
from tuner.search.optimize import SearchOptions, search
from tuner.search.pareto import Trial, front, pick

TRIALS = 40


def silent(done: int, total: int) -> None:
    del done, total


def run(database: Path, trials: int = TRIALS, workers: int = 1) -> list[Trial]:
    return search(closed_form(space(8)), database, SearchOptions(trials, workers, 3), silent)


def plans(trials: list[Trial]) -> list[FleetPlan]:
    found = [plan_of(trial.settings) for trial in trials]
    return [plan for plan in found if plan is not None]


@pytest.fixture(scope="module")
def forty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    database = tmp_path_factory.mktemp("fleets") / "s.db"
    run(database)
    return database


def test_default_then_starting_points_then_samples(forty: Path) -> None:
    problem, tried = closed_form(space(8)), plans(load_trials(forty))
    assert len(tried) == TRIALS
    assert tried[0] == problem.default
    starts = list(problem.starts())
    assert tried[1 : 1 + len(starts)] == starts
    assert {plan.mode for plan in tried[1 + len(starts) :]} == {"aggregated", "disaggregated"}


def test_a_split_near_the_best_is_found(forty: Path) -> None:
    trials = load_trials(forty)
    best = plan_of(pick(trials, 1)[0].settings)
    assert best is not None and best.mode == "disaggregated"
    assert best.pools[0].num_gpus in (3, 4)
    assert any(t.settings["mode"] == "disaggregated" for t in front(trials))


def test_goodput_per_gpu_decides(forty: Path) -> None:
    for trial in load_trials(forty):
        if trial.metrics is not None:
            assert trial.worth == trial.metrics.goodput_rps / trial.settings["num_gpus"]


def test_refused_fleets_are_kept_with_their_reason(tmp_path: Path) -> None:
    class Strict(ClosedForm):
        def candidate(self, raw):
            return super().candidate(dict(raw) | {"prefill.max_num_batched_tokens": 1300})

    made = closed_form(space(8, modes=("disaggregated",)))
    strict = Strict(**{f.name: getattr(made, f.name) for f in fields(made)})
    trials = search(strict, tmp_path / "s.db", SearchOptions(10, 1, 3), silent)
    refused = [t for t in trials if t.metrics is None]
    assert refused and all("thirteen is refused" in str(t.refused) for t in refused)
    assert all(t.worth is None for t in refused)


def test_only_axes_of_the_mode_are_in_the_database(forty: Path) -> None:
    storage = optuna.storages.RDBStorage(f"sqlite:///{forty}")
    try:
        for trial in optuna.load_study(study_name="stallfree", storage=storage).trials:
            names = set(trial.params) - {"mode"}
            others = {"aggregated": ("prefill.", "decode.", "disaggregated.")}
            wrong = others.get(trial.params["mode"], ("aggregated.",))
            assert names and not any(name.startswith(wrong) for name in names)
    finally:
        storage.remove_session()
        storage.engine.dispose()


class Killed(BaseException):
    """Stands for whatever ends a process in the middle of a trial."""


class Dying(ClosedForm):
    """Goes away in the middle of an evaluation."""

    left = 0

    def evaluate(self, plan: FleetPlan) -> Metrics:
        Dying.left -= 1
        if Dying.left < 0:
            raise Killed
        return super().evaluate(plan)


@pytest.mark.parametrize("survived", [5, 24])
def test_a_killed_run_ends_as_if_it_had_not_been(
    survived: int, forty: Path, tmp_path: Path
) -> None:
    made = closed_form(space(8))
    dying = Dying(**{f.name: getattr(made, f.name) for f in fields(made)})
    Dying.left = survived
    with pytest.raises(Killed):
        search(dying, tmp_path / "s.db", SearchOptions(TRIALS, 1, 3), silent)
    assert len(load_trials(tmp_path / "s.db")) == survived
    assert run(tmp_path / "s.db") == load_trials(forty)


def test_workers_share_trials_and_starting_points(tmp_path: Path) -> None:
    trials = run(tmp_path / "s.db", 20, workers=2)
    assert len(trials) == 20
    tried = plans(trials)
    starts = closed_form(space(8)).starts()
    assert all(tried.count(plan) >= 1 for plan in starts)
    assert tried[0] == closed_form(space(8)).default


def test_the_fewest_gpus_that_meet_the_slos(tmp_path: Path) -> None:
    class Enough(ClosedForm):
        def evaluate(self, plan: FleetPlan) -> Metrics:
            from fake_problem import metrics

            need = 10 if plan.mode == "aggregated" else 7
            return metrics(0.5 if plan.num_gpus >= need else 5.0, 0.02, 4.0)

    made = closed_form(space(24, tp=(1,), fewest=True))
    enough = Enough(**{f.name: getattr(made, f.name) for f in fields(made)})
    trials = search(enough, tmp_path / "s.db", SearchOptions(60, 1, 3), silent)
    best = plan_of(pick(trials, 1)[0].settings)
    assert best is not None
    assert (best.mode, best.num_gpus) == ("disaggregated", 7)
    assert pick(trials, 1)[0].worth == 1 / 7


def test_the_fewest_gpus_where_one_mode_needs_them_all(tmp_path: Path) -> None:
    """Of four GPUs in pairs, a split fleet has no number to choose and an aggregated one has."""
    problem = closed_form(space(4, tp=(2,), fewest=True))
    tried = plans(search(problem, tmp_path / "s.db", SearchOptions(30, 1, 3), silent))
    counts = {(plan.mode, plan.num_gpus) for plan in tried}
    assert counts == {("aggregated", 2), ("aggregated", 4), ("disaggregated", 4)}
