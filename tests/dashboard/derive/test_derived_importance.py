"""Which settings matter, and why trials were refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

from dashboard.derive.importance import FEWEST_TRIALS, importance
from dashboard.derive.refusals import refusals
from tests.dashboard.made_points import point
from tests.dashboard.made_runs import copy_of
from tuner.results import RunFolder
from tuner.search.database import open_study


def silent(done: int, total: int) -> None:
    assert 0 <= done <= total


def run_with(finished: Path, place: Path, front: list[dict[str, Any]]) -> Path:
    """A run like `finished` with other trials."""
    copy_of(finished, place)
    folder = RunFolder(place)
    folder.save_results(replace(folder.load_results(), front=front, trials=len(front)))
    return place


def test_the_setting_that_decides_is_found(finished_run: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    front = [
        point(n, 0.2 + 1e-9 * cap, 1e-4 * budget, budget=int(budget), cap=int(cap), goodput=1.0)
        for n, (budget, cap) in enumerate(rng.integers(100, 1000, (80, 2)))
    ]
    found = importance(run_with(finished_run, tmp_path / "run", front), progress=silent)
    itl = found["figures"]["itl_p99_s"]
    budget, cap = itl["shares"]
    assert found["settings"] == ["budget", "cap"] and found["trials"] == 80
    assert itl["skill"] > 0.9 and budget["mean"] > 20 * abs(cap["mean"])
    assert found["figures"]["goodput_rps"] is None


def test_few_trials_tell_nothing(finished_run: Path) -> None:
    found = importance(finished_run, progress=silent)
    assert found["trials"] < FEWEST_TRIALS and found["figures"] == {}


def test_refusals_of_one_kind_are_counted_together(finished_run: Path, tmp_path: Path) -> None:
    folder = RunFolder(copy_of(finished_run, tmp_path / "run"))
    with open_study(folder.database) as study:
        for why in ("needs 12 blocks", "needs 7 blocks", "no such mode"):
            study.add_trial(
                optuna.trial.create_trial(
                    state=optuna.trial.TrialState.PRUNED,
                    user_attrs={"settings": {"max_num_seqs": 3}, "refused": why},
                )
            )
    reasons = refusals(folder.path, progress=silent)["reasons"]
    assert [(r["trials"], r["example"], r["number"]) for r in reasons] == [
        (2, "needs 12 blocks", 8),
        (1, "no such mode", 10),
    ]
    assert refusals(finished_run, progress=silent) == {"reasons": []}


@pytest.mark.parametrize("figure", ["ttft_p99_s", "itl_p99_s"])
def test_trials_without_a_figure_are_left_out(
    finished_run: Path, tmp_path: Path, figure: str
) -> None:
    front = [point(n, 0.1 + 0.01 * n, 0.1 + 0.01 * n, budget=n) for n in range(FEWEST_TRIALS)]
    front[3] |= {figure: None}
    found = importance(run_with(finished_run, tmp_path / "run", front), progress=silent)
    assert found["trials"] == FEWEST_TRIALS - 1 and found["figures"] == {}
