"""The whole judgement: verdict, flips, map and regimes, from ranked options and a bench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from profiler.errors import SimulationError, StudyError
from profiler.traffic.regimes import Regime, find_regimes
from tuner.metrics import Metrics
from tuner.search.progress import Ui
from tuner.verdict.bench import Bench
from tuner.verdict.conditions import (
    FACTORS,
    LOAD,
    OWN,
    Conditions,
    require_rate,
    typical_piece,
)
from tuner.verdict.evaluations import Evaluations, Run, runner
from tuner.verdict.flips import Change, find_changes
from tuner.verdict.grid import Grid, cell, grids
from tuner.verdict.margin import Comparison, compare, leader
from tuner.verdict.options import SIDES, Option, Side, ratios, short_list, thinned
from tuner.verdict.ratio_plan import RatioPlan, plan_ratios

MOST_REQUESTS = 20_000
"""of the verdict itself: longer traffic is judged on a typical piece of that many"""
MOST_RATIOS = 32
"""tried in each regime; of a large fleet evenly spread ones"""
_MAP_PIECE = replace(OWN, piece=1)
_MET, _MISSED = "met", "missed"


@dataclass(frozen=True)
class JudgeSettings:
    """How much to look at."""

    top: int = 3
    """candidates of each mode that are re-decided between in every cell"""
    requests: int = 4000
    """most requests of a cell of the map, of a step of a flip search, and of a regime"""
    windows: int = 16
    workers: int = 2
    switch_s: float = 0.0
    with_map: bool = True
    with_regimes: bool = True
    factors: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: FACTORS)


@dataclass(frozen=True)
class Decided:
    """The best option of one side, on the traffic itself."""

    option: Option
    metrics: Metrics
    goodput: float
    """per second and GPU"""
    headroom: Change | None
    """where, as load grows, no option of the side meets the SLOs any more; None when that is
    beyond the loads looked at, or when none meets them at the least load"""
    meets_least: bool
    """at the least load looked at, some option of the side meets the SLOs"""


@dataclass(frozen=True)
class Judgement:
    """All that a verdict says. Plain data comes from `report.judgement_dict`."""

    comparison: Comparison
    aggregated: Decided
    disaggregated: Decided
    options: tuple[Option, ...]
    """re-decided between, everywhere"""
    flips: Mapping[str, list[Change]]
    """per axis"""
    grids: list[Grid]
    """empty without a map"""
    regimes: RatioPlan | None
    bench: Bench
    settings: JudgeSettings


def build_bench(bench: Bench, settings: JudgeSettings) -> tuple[Bench, list[Regime]]:
    """The bench with the pieces of its traffic that a judgement needs, and the regimes.

    Pieces: the traffic, at most `MOST_REQUESTS`; a piece for map and flips; one per regime that has
    requests.
    Raises `TraceError` for traffic without a rate.
    """
    trace = bench.pieces[0]
    require_rate(trace)
    regimes = find_regimes(trace) if settings.with_regimes else []
    pieces = [typical_piece(trace, MOST_REQUESTS), typical_piece(trace, settings.requests)]
    rates = {}
    for regime in (r for r in regimes if r.num_requests):
        rates[len(pieces)] = regime.rate_rps
        pieces.append(typical_piece(regime.take(trace), settings.requests))
    return replace(bench, pieces=tuple(pieces), rates=rates, windows=settings.windows), regimes


def judge(ranked: Sequence[Option], bench: Bench, settings: JudgeSettings, ui: Ui) -> Judgement:
    """Judge aggregated against split.

    Parameters
    ----------
    ranked
        Options of both sides, of each the best first.
    bench
        Its first piece is the whole traffic.

    Raises
    ------
    StudyError
        A side has no option.
    SimulationError
        No option of a side can be simulated.
    TraceError
        The traffic has no rate.
    """
    options = short_list(ranked, settings.top)
    _require_sides(options)
    bench, regimes = build_bench(bench, settings)
    with runner(bench, settings.workers) as run:
        known = Evaluations(options, run)
        with ui.progress(f"judging {len(options)} candidates") as progress:
            known.need([OWN], progress)
        _require_simulated(known)
        comparison = _compare(known, settings.windows, ui)
        flips = _flips(known, settings, ui)
        maps: list[Grid] = []
        if settings.with_map:
            with ui.progress("map") as progress:
                maps = grids(known, _MAP_PIECE, settings.factors, progress)
        headroom = _headroom(known, settings, ui)
        split = options[known.best(Side.DISAGGREGATED, OWN)[0]]
        plan = _regimes(run, split, regimes, settings, ui) if regimes else None
    sides = [_decided(known, bench, side, headroom[side]) for side in SIDES]
    return Judgement(
        comparison, sides[0], sides[1], tuple(options), flips, maps, plan, bench, settings
    )


def _require_sides(options: Sequence[Option]) -> None:
    for side in SIDES:
        if not any(option.side is side for option in options):
            raise StudyError(
                f"a verdict needs candidates of both modes, and the search has no {side.value} one "
                "that meets the engine's rules; put both into fleet.modes and search again, or "
                "raise search.trials"
            )


def _require_simulated(known: Evaluations) -> None:
    for side in SIDES:
        score = known.best(side, OWN)[1]
        if score.refused is not None:
            raise SimulationError(f"no {side.value} candidate can be simulated: {score.refused}")


def _compare(known: Evaluations, windows: int, ui: Ui) -> Comparison:
    """The two options that are best on the traffic itself, over all windows."""
    where = [replace(OWN, window=number) for number in range(windows)]
    goodput = []
    for side, (index, _) in zip(SIDES, known.both(OWN), strict=True):
        with ui.progress(f"{side.value} in {windows} windows") as progress:
            goodput.append([s.goodput for s in known.of(index, where, progress)])
    return compare(*goodput)


def _flips(known: Evaluations, settings: JudgeSettings, ui: Ui) -> dict[str, list[Change]]:
    found = {}
    for axis, factors in settings.factors.items():
        with ui.progress(f"flips along {axis}") as progress:

            def states(
                at: Sequence[float], axis: str = axis, progress: Any = progress
            ) -> list[str]:
                where = [_MAP_PIECE.at(axis, factor) for factor in at]
                known.need(where, progress)
                return [leader(cell(known, c).margin) for c in where]

            found[axis] = find_changes(factors, states)
    return found


Headroom = tuple[Change | None, bool]


def _headroom(known: Evaluations, settings: JudgeSettings, ui: Ui) -> dict[Side, Headroom]:
    """Per side: the first change from meeting the SLOs to missing them; met at the least load."""
    found = {}
    for side in SIDES:
        with ui.progress(f"headroom, {side.value}") as progress:

            def states(
                at: Sequence[float], side: Side = side, progress: Any = progress
            ) -> list[str]:
                where = [_MAP_PIECE.at(LOAD, factor) for factor in at]
                known.need(where, progress)
                return [_MET if _meets(known, side, c) else _MISSED for c in where]

            factors = settings.factors[LOAD]
            least = states(factors[:1])[0] == _MET
            lost = [c for c in find_changes(factors, states) if c.before == _MET]
            found[side] = (lost[0] if least and lost else None, least)
    return found


def _meets(known: Evaluations, side: Side, where: Conditions) -> bool:
    return any(
        known.score(i, where).meets_slo
        for i, option in enumerate(known.options)
        if option.side is side
    )


def _regimes(
    run: Run, split: Option, regimes: Sequence[Regime], settings: JudgeSettings, ui: Ui
) -> RatioPlan:
    """The best P:D of the best split deployment's settings in each regime."""
    options = thinned(ratios(split), split, MOST_RATIOS)
    known = Evaluations(options, run)
    busy = [r for r, regime in enumerate(regimes) if regime.num_requests]
    where = [replace(OWN, piece=2 + number) for number in range(len(busy))]
    with ui.progress(f"{len(options)} ratios in {len(regimes)} regimes") as progress:
        known.need(where, progress)
    goodput = np.zeros((len(regimes), len(options)))
    goodput[busy] = [[known.score(i, c).goodput for i in range(len(options))] for c in where]
    replicas = [(p.replicas, d.replicas) for p, d in (o.pools for o in options if o.pools)]
    return plan_ratios(regimes, replicas, goodput, settings.switch_s)


def _decided(known: Evaluations, bench: Bench, side: Side, headroom: Headroom) -> Decided:
    index, score = known.best(side, OWN)
    option = known.options[index]
    return Decided(option, bench.metrics(option, OWN), score.goodput, *headroom)
