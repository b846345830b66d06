"""The gate on predictions: drift is printed, more than 2 % or another verdict fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def check_pinned(table: Path, name: str, now: dict[str, Any], figures: tuple[str, ...]) -> None:
    """`now` against row `name` of `table`."""
    pinned = json.loads(table.read_text())[name]
    for figure in figures:
        if now[figure] != pytest.approx(pinned[figure], rel=1e-6):
            print(f"{name}: {figure} was {pinned[figure]:.6g}, is {now[figure]:.6g}")
    assert now["feasible"] == pinned["feasible"]
    for figure in figures:
        assert now[figure] == pytest.approx(pinned[figure], rel=0.02), figure
