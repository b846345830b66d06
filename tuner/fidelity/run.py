"""The whole comparison: rows, engines, constants of both halves, the planner beside."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from profiler.engines.silicon.fitted import FITTED, REVERSE, load_fitted
from profiler.engines.silicon.published import (
    PACKAGE,
    package_version,
    require_package,
    systems_folder,
)
from profiler.engines.silicon.spec import SiliconSpec, Terms
from profiler.errors import SimulationError
from tuner.fidelity.checks import contradictions
from tuner.fidelity.engines import NO_ROOM, Engine, build_engines, workload_of
from tuner.fidelity.fit import fit_constants, save_fitted, terms_by
from tuner.fidelity.predict import Prediction, Predictor
from tuner.fidelity.rows import Row, Rows, read_rows
from tuner.fidelity.score import Pair
from tuner.fidelity.servers import spec_of
from tuner.search.progress import Ui
from tuner.simulator import prepare

_ROWS = "silicon_sample.csv"


@dataclass(frozen=True)
class Scored:
    """Predictions of one half of the rows."""

    pairs: tuple[Pair, ...]
    planner: tuple[Pair, ...]
    """the same rows by NVIDIA's static estimate"""


@dataclass(frozen=True)
class Fidelity:
    """What `run_fidelity` found."""

    rows: Rows
    """compared, and how many were left out for which reason"""
    scored: Scored
    """half 1, with the constants of half 0"""
    fitted: Scored
    """half 0, with its own constants"""
    reverse: Scored
    """half 0, with the constants of half 1"""
    unfitted: Scored
    """half 1, without constants"""
    contradicting: tuple[Pair, ...]
    """half 1, with the rows that were left out though they can be predicted"""
    source: str


def run_fidelity(ui: Ui, *, workers: int = 2, fit: bool = False) -> Fidelity:
    """Predict every published row that can be predicted.

    Parameters
    ----------
    workers
        Processes that build tables and fit.
    fit
        Fit the constants again and write them to their file.

    Raises
    ------
    MissingExtraError
        The published data is not installed.
    """
    require_package()
    prepare()
    read = read_rows(systems_folder() / _ROWS)
    with ui.progress("tables of every deployment") as progress:
        engines, reasons = build_engines(read.rows, workers, progress)
    possible = read.without(reasons)
    kept = possible.without(contradictions(possible.rows, engines))
    halves = tuple(tuple(row for row in kept.rows if row.half == side) for side in (0, 1))
    if fit:
        fit_both(halves, engines, workers, ui)
    forward, backward = terms_by(load_fitted()), terms_by(load_fitted(section=REVERSE))
    with ui.progress("predicting") as progress:
        progress(0, 5)
        dropped = set(possible.rows) - set(kept.rows)
        others = sorted((row for row in dropped if row.half == 1), key=lambda row: row.id)
        scored, fitted, reverse, unfitted, contradicting = (
            score(rows, engines, terms_of)
            for rows, terms_of in (
                (halves[1], forward),
                (halves[0], forward),
                (halves[0], backward),
                (halves[1], lambda row: Terms()),
                (others, forward),
            )
        )
        progress(5, 5)
    return Fidelity(
        rows=_without_refused(kept, scored, fitted),
        scored=scored,
        fitted=fitted,
        reverse=reverse,
        unfitted=unfitted,
        contradicting=scored.pairs + contradicting.pairs,
        source=f"{PACKAGE} {package_version()}",
    )


def fit_both(
    halves: tuple[tuple[Row, ...], ...], engines: dict[SiliconSpec, Engine], workers: int, ui: Ui
) -> None:
    """Fit constants on each half and write them."""
    found = []
    for side, rows in enumerate(halves):
        with ui.progress(f"fitting on half {side}") as progress:
            found.append(fit_constants(rows, engines, workers, progress))
    provenance = {
        "made_by": "stallfree fidelity --silicon --fit",
        "data": f"{PACKAGE} {package_version()}, {_ROWS}",
        "systems": f"fitted on half 0, {len(halves[0])} rows",
        "reverse": f"fitted on half 1, {len(halves[1])} rows",
    }
    save_fitted((found[0], found[1]), provenance, FITTED)
    load_fitted.cache_clear()


def score(
    rows: Iterable[Row],
    engines: dict[SiliconSpec, Engine],
    terms_of: Callable[[Row], Terms],
) -> Scored:
    """Predict `rows`; a row with a request that the KV pool cannot hold is not in the result."""
    predictor = Predictor(engines, terms_of)
    pairs, planner = [], []
    for row in rows:
        try:
            found = predictor.predict(row)
        except SimulationError:
            continue
        pairs.append((row, found))
        planner.append((row, Prediction(*engines[spec_of(row)].planner[workload_of(row)])))
    return Scored(tuple(pairs), tuple(planner))


def _without_refused(rows: Rows, *halves: Scored) -> Rows:
    predicted = {row.id for half in halves for row, _ in half.pairs}
    return rows.without({row.id: NO_ROOM for row in rows.rows if row.id not in predicted})
