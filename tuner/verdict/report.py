"""A judgement as plain data: what `--json` prints and a run folder keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tuner.verdict.conditions import LINK_BANDWIDTH, LOAD, OWN, PROMPT_LENGTH
from tuner.verdict.flips import Change
from tuner.verdict.grid import Grid
from tuner.verdict.judge import Decided, Judgement
from tuner.verdict.options import SIDES

UNITS = {
    PROMPT_LENGTH: "mean prompt tokens",
    LINK_BANDWIDTH: "link bandwidth, GB/s",
    LOAD: "arrival rate, requests/s",
}
"""axis -> what its values are"""
_FIGURES = (
    "slo_attainment",
    "meets_slo",
    "ttft_p50_s",
    "ttft_p99_s",
    "itl_p50_s",
    "itl_p99_s",
    "tpot_p99_s",
    "goodput_rps",
    "violations",
)


def judgement_dict(judgement: Judgement) -> dict[str, Any]:
    """Plain JSON types.

    `flips` has for each axis a list of changes, or None where nothing changes in the range of
    `axes`; `map` is None without one; `regimes` is None where they were left out.
    """
    found = judgement.comparison
    return {
        "verdict": found.verdict,
        "margin": found.margin,
        "margin_interval": None if found.interval is None else list(found.interval),
        "probability": found.probability,
        "windows": found.windows,
        "aggregated": _side(judgement, judgement.aggregated),
        "disaggregated": _side(judgement, judgement.disaggregated),
        "flips": {
            axis: [_change(judgement, axis, c) for c in changes] or None
            for axis, changes in judgement.flips.items()
        },
        "axes": {axis: _axis(judgement, axis, at) for axis, at in _factors(judgement).items()},
        "map": _maps(judgement),
        "regimes": None if judgement.regimes is None else judgement.regimes.to_dict(),
        "candidates": _candidates(judgement),
        "requests": {
            "verdict": judgement.bench.pieces[0].num_requests,
            "map": judgement.bench.pieces[1].num_requests,
            "most_per_regime": judgement.settings.requests,
        },
    }


def _factors(judgement: Judgement) -> Mapping[str, tuple[float, ...]]:
    return judgement.settings.factors


def _side(judgement: Judgement, decided: Decided) -> dict[str, Any]:
    plain = decided.metrics.to_dict()
    return {
        "option": decided.option.name,
        "ratio": decided.option.ratio,
        **decided.option.plan.settings(),
        "goodput_per_gpu_rps": decided.goodput,
        **{name: plain[name] for name in _FIGURES},
        "headroom": _headroom(judgement, decided),
    }


def _headroom(judgement: Judgement, decided: Decided) -> dict[str, Any]:
    """The highest load at which some candidate of the side meets the SLOs.

    `highest_rps` is None when none does at the least load; not `bounded`: none of the loads looked
    at is too high.
    """
    loads = _factors(judgement)[LOAD]
    highest = None
    if decided.meets_least:
        highest = loads[-1] if decided.headroom is None else decided.headroom.low
    return {
        "highest_factor": highest,
        "highest_rps": None if highest is None else axis_value(judgement, LOAD, highest),
        "bounded": decided.headroom is not None or not decided.meets_least,
    }


def axis_value(judgement: Judgement, axis: str, factor: float) -> float:
    """What `factor` of the study's own value is, in the axis' unit (`UNITS`)."""
    bench = judgement.bench
    if axis == LINK_BANDWIDTH:
        link = bench.build(judgement.disaggregated.option.plan).link
        return 0.0 if link is None else link.bytes_per_s * factor / 1e9
    trace = bench.traffic(replace(OWN, piece=1).at(axis, factor))
    return float(trace.prompt_tokens.mean()) if axis == PROMPT_LENGTH else trace.rate_rps


def _axis(judgement: Judgement, axis: str, factors: Sequence[float]) -> dict[str, Any]:
    return {
        "unit": UNITS[axis],
        "own": axis_value(judgement, axis, 1.0),
        "factors": list(factors),
        "values": [axis_value(judgement, axis, factor) for factor in factors],
    }


def _change(judgement: Judgement, axis: str, change: Change) -> dict[str, Any]:
    return {
        "value": axis_value(judgement, axis, change.factor),
        "unit": UNITS[axis],
        "factor": change.factor,
        "between": [axis_value(judgement, axis, f) for f in (change.low, change.high)],
        "below": change.before,
        "above": change.after,
    }


def _maps(judgement: Judgement) -> list[dict[str, Any]] | None:
    return [_map(grid) for grid in judgement.grids] or None


def _map(grid: Grid) -> dict[str, Any]:
    """Axes by name (their values are under `axes`), and a row of cells per value of y."""
    return {
        "x": grid.x_axis,
        "y": grid.y_axis,
        "margin": [[cell.margin for cell in row] for row in grid.cells],
        "cells": [[cell.to_dict() for cell in row] for row in grid.cells],
    }


def _candidates(judgement: Judgement) -> dict[str, Any]:
    """How many are re-decided between in every cell, and which."""
    options = judgement.options
    return {
        "per_cell": len(options),
        **{side.value: sum(o.side is side for o in options) for side in SIDES},
        "options": [
            {"option": o.name, "side": o.side.value, "ratio": o.ratio, **o.plan.settings()}
            for o in options
        ],
    }
