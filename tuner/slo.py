"""SLOs as plain data: limits per class of requests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def missed_in_words(misses: Mapping[str, float]) -> str:
    """Relative violations for people: default.itl_p99_s by 12 %."""
    return ", ".join(
        f"{name} by {100 * v:.0f} %" if math.isfinite(v) else f"{name}, which has no end"
        for name, v in misses.items()
    )


@dataclass(frozen=True)
class Limits:
    """SLOs of one class, seconds; NaN for none. Each is a limit on the p99 and on a request."""

    ttft_p99_s: float = math.nan
    itl_p99_s: float = math.nan
    tpot_p99_s: float = math.nan


@dataclass(frozen=True)
class Slo:
    """The limits of every class of a trace, in the order of its class indices."""

    class_names: tuple[str, ...]
    limits: tuple[Limits, ...]

    @classmethod
    def build(
        cls,
        class_names: Sequence[str],
        default: Mapping[str, float | None],
        classes: Mapping[str, Mapping[str, float | None]],
    ) -> Slo:
        """Limits per class: those of `classes`, each missing one taken from `default`."""
        limits = []
        for name in class_names:
            own = {k: v for k, v in classes.get(name, {}).items() if v is not None}
            merged = {k: v for k, v in {**default, **own}.items() if v is not None}
            limits.append(Limits(**merged))
        return cls(tuple(class_names), tuple(limits))

    @property
    def has_limits(self) -> bool:
        """Whether any class has any limit."""
        return any(not math.isnan(x) for limit in self.limits for x in astuple(limit))

    @property
    def itl_limit_s(self) -> FloatArray:
        """(C,) ITL limit of each class, seconds; NaN for none."""
        return np.array([limit.itl_p99_s for limit in self.limits])
