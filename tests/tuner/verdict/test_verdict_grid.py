"""The grid against evaluating each cell by itself, and workers against this process."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from made_verdict import (
    aggregated,
    evaluate,
    evaluations,
    marked,
    nothing,
    run_here,
    sides,
    split,
)

from profiler.errors import SimulationError
from tuner.verdict.conditions import FACTORS, LINK_BANDWIDTH, LOAD, OWN, PROMPT_LENGTH, Conditions
from tuner.verdict.evaluations import Evaluations, runner
from tuner.verdict.grid import grids
from tuner.verdict.margin import margin
from tuner.verdict.options import Option, Score, Side, refused

OPTIONS = (aggregated(), aggregated(4, 512), split(1, 3), split(2, 2), split(3, 1))


def test_every_cell_is_decided_anew() -> None:
    known = evaluations(*OPTIONS)
    found = grids(known, OWN, FACTORS, nothing)
    assert [(g.x_axis, g.y_axis) for g in found] == [(PROMPT_LENGTH, LOAD), (LINK_BANDWIDTH, LOAD)]
    for grid in found:
        for i, y in enumerate(grid.y):
            for j, x in enumerate(grid.x):
                best = sides(known, OWN.at(grid.x_axis, x).at(grid.y_axis, y))
                cell = grid.cells[i][j]
                expected = {side: best[side].goodput for side in Side}
                assert cell.aggregated.score.goodput == expected[Side.AGGREGATED]
                assert cell.disaggregated.score.goodput == expected[Side.DISAGGREGATED]
                assert cell.margin == margin(*expected.values())
                assert cell.hopeless == (not any(s.meets_slo for s in best.values()))
    by_length = [cell.disaggregated.ratio for cell in found[0].cells[-1]]
    assert by_length[0] == "1:3"
    assert by_length[-1] == "3:1"


def test_nothing_is_simulated_twice_and_aggregated_ones_ignore_the_link() -> None:
    jobs = []

    def counted(option: Option, where: Conditions) -> Score:
        jobs.append((option.name, where))
        return evaluate(option, where)

    known = Evaluations(OPTIONS, run_here(counted))
    grids(known, OWN, FACTORS, nothing)
    assert len(jobs) == len(set(jobs))
    assert all(c.link_bandwidth == 1.0 for name, c in jobs if name.startswith("aggregated"))
    before = len(jobs)
    grids(known, OWN, FACTORS, nothing)
    assert len(jobs) == before


def test_equal_goodput_is_decided_by_room_to_the_limits() -> None:
    known = evaluations(aggregated(), aggregated(4, 512), split())
    where = OWN.at(LOAD, 0.01)  # everything is served
    known.need([where], nothing)
    index, score = known.best(Side.AGGREGATED, where)
    assert (index, score.goodput) == (0, 0.01)


def test_refused_options_lose() -> None:
    def evaluate_some(option: Option, where: Conditions) -> Score:
        return refused("no room") if option.name == "aggregated-4-2048" else evaluate(option, where)

    known = Evaluations(OPTIONS, run_here(evaluate_some))
    known.need([OWN], nothing)
    assert known.best(Side.AGGREGATED, OWN)[0] == 1


def test_workers_give_the_same_in_the_same_order() -> None:
    where = [OWN.at(LOAD, load) for load in FACTORS[LOAD]]
    jobs = [(option, c) for c in where for option in OPTIONS]
    done: list[int] = []
    with runner(marked, 2) as run:
        scores = run(jobs, lambda: done.append(1))
    assert [replace(s, refused=None) for s in scores] == [evaluate(*job) for job in jobs]
    assert len(done) == len(jobs)
    here = [i for i, s in enumerate(scores) if s.refused == str(os.getpid())]
    assert here == [0, 2], "the first of each side is run here"


def _die(option: Option, where: Conditions) -> Score:
    if option.name == "aggregated-4-512":
        os._exit(9)
    return evaluate(option, where)


def test_a_killed_worker_is_one_line() -> None:
    with pytest.raises(SimulationError, match="worker"), runner(_die, 2) as run:
        run([(option, OWN) for option in OPTIONS], lambda: None)
