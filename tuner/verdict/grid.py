"""The map: the margin over two axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profiler.engines.base import Progress
from tuner.verdict.conditions import LINK_BANDWIDTH, LOAD, PROMPT_LENGTH, Conditions
from tuner.verdict.evaluations import Evaluations
from tuner.verdict.margin import margin
from tuner.verdict.options import Option, Score

PLANES = ((PROMPT_LENGTH, LOAD), (LINK_BANDWIDTH, LOAD))
"""axes of the maps: across, up"""


@dataclass(frozen=True)
class Pick:
    """The best option of one side in a cell."""

    option: str
    ratio: str | None
    score: Score

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "option": self.option,
            "ratio": self.ratio,
            "goodput_per_gpu_rps": self.score.goodput,
            "slo_attainment": self.score.attainment,
            "meets_slo": self.score.meets_slo,
        }


@dataclass(frozen=True)
class Cell:
    """Both sides under some conditions."""

    margin: float
    aggregated: Pick
    disaggregated: Pick

    @property
    def hopeless(self) -> bool:
        """Neither side meets the SLOs: the margin says who serves more of an overload well."""
        return not (self.aggregated.score.meets_slo or self.disaggregated.score.meets_slo)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "margin": self.margin,
            "neither_meets_slo": self.hopeless,
            "aggregated": self.aggregated.to_dict(),
            "disaggregated": self.disaggregated.to_dict(),
        }


@dataclass(frozen=True)
class Grid:
    """One map."""

    x_axis: str
    y_axis: str
    x: tuple[float, ...]
    """factors"""
    y: tuple[float, ...]
    cells: tuple[tuple[Cell, ...], ...]
    """cells[row][column]; a row per y, a column per x"""


def cell(known: Evaluations, where: Conditions) -> Cell:
    """Both sides re-decided under conditions that `known` has been asked for."""
    aggregated, disaggregated = known.both(where)
    value = margin(aggregated[1].goodput, disaggregated[1].goodput)
    return Cell(value, _pick(known.options, *aggregated), _pick(known.options, *disaggregated))


def _pick(options: Sequence[Option], index: int, score: Score) -> Pick:
    return Pick(options[index].name, options[index].ratio, score)


def grids(
    known: Evaluations,
    own: Conditions,
    factors: Mapping[str, tuple[float, ...]],
    progress: Progress,
) -> list[Grid]:
    """The maps of `PLANES` around `own`, every option simulated in every cell."""
    known.need(
        (
            own.at(across, x).at(up, y)
            for across, up in PLANES
            for x in factors[across]
            for y in factors[up]
        ),
        progress,
    )
    return [_grid(known, own, plane, factors) for plane in PLANES]


def _grid(
    known: Evaluations,
    own: Conditions,
    plane: tuple[str, str],
    factors: Mapping[str, tuple[float, ...]],
) -> Grid:
    across, up = plane
    rows = tuple(
        tuple(cell(known, own.at(across, x).at(up, y)) for x in factors[across])
        for y in factors[up]
    )
    return Grid(across, up, factors[across], factors[up], rows)
