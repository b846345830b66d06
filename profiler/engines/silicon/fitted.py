"""Constants fitted to published end-to-end measurements, by GPU, model and number format.

`fitted.json` is written by `stallfree fidelity --silicon --fit` and says from which rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from profiler.engines.silicon.spec import Terms

FITTED = Path(__file__).with_name("fitted.json")
SYSTEMS = "systems"
"""section of the constants in use: those of half 0 of the rows"""
REVERSE = "reverse"
"""section of those of half 1"""
POOLED = "dense"
"""key of the constants that a model without its own gets"""


@dataclass(frozen=True)
class Constants:
    """The terms that are fitted; see `Terms`."""

    chunk_factor: float
    decode_factor: float
    launch_per_layer_s: float

    def over(self, terms: Terms) -> Terms:
        """`terms` with these."""
        return replace(terms, **vars(self))


@cache
def load_fitted(path: Path = FITTED, section: str = SYSTEMS) -> dict[str, dict[str, Constants]]:
    """GPU system -> `constants_key`, or POOLED -> constants."""
    content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return {
        system: {name: Constants(**numbers) for name, numbers in models.items()}
        for system, models in content[section].items()
    }


def constants_key(model: str, weight_dtype: str) -> str:
    """Key of the constants of a model, whatever its owner, in a number format."""
    return f"{model.rsplit('/', 1)[-1].removeprefix('Meta-')} {weight_dtype}"


def fitted_terms(system: str, model: str, weight_dtype: str) -> Terms:
    """`Terms` with the constants of the model on that GPU, else of dense models on it."""
    models = load_fitted().get(system, {})
    found = models.get(constants_key(model, weight_dtype)) or models.get(POOLED)
    return found.over(Terms()) if found else Terms()
