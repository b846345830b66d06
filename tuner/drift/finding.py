"""One comparison of before and after: how large, and how likely by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

LEVEL = 0.05
"""chance that any finding of one family is called a drift where nothing changed"""
ALL = "all"
"""stands for the requests of every class"""


@dataclass(frozen=True)
class Finding:
    """One quantity before and after."""

    quantity: str
    of: str
    """class of requests, or `ALL`"""
    before: float
    after: float
    unit: str
    effect: float
    """size of the change; see where the quantity is compared"""
    least_effect: float
    """an effect below this is no drift, however certain"""
    p: float
    """chance of such an effect where nothing changed, corrected for the size of the family"""

    @property
    def drifted(self) -> bool:
        """Large enough to matter, and too large for chance."""
        return self.p <= LEVEL and self.effect >= self.least_effect

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; what is not finite becomes None."""
        plain = asdict(self) | {"drifted": self.drifted}
        return {
            name: None if isinstance(value, float) and not np.isfinite(value) else value
            for name, value in plain.items()
        }


def p_values(effects: FloatArray, by_chance: FloatArray) -> FloatArray:
    """(T,) chance of effects as large, by resampling; never 0 (Davison & Hinkley 1997, eq. 4.11).

    Parameters
    ----------
    effects
        (T,) as found.
    by_chance
        (R, T) in resampled data where nothing changed; NaN counts as none.
    """
    as_large = (np.nan_to_num(by_chance, nan=0.0, posinf=np.inf) >= effects).sum(axis=0)
    p: FloatArray = (1 + as_large) / (1 + len(by_chance))
    return p


def holm(findings: Sequence[Finding]) -> list[Finding]:
    """The findings with `p` corrected for their number (Holm, Scand. J. Statistics 6, 1979)."""
    order = sorted(range(len(findings)), key=lambda i: findings[i].p)
    corrected, worst = list(findings), 0.0
    for place, index in enumerate(order):
        worst = max(worst, min(1.0, (len(findings) - place) * findings[index].p))
        corrected[index] = replace(findings[index], p=worst)
    return corrected
