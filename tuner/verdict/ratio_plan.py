"""The best P:D in each regime of the traffic, and what moving replicas between pools gains.

Each regime (`profiler.traffic.regimes`) is simulated by itself, from an idle fleet, with every P:D
that fits into the GPUs of the best split deployment (at most 32, evenly spread), its settings
unchanged. A ratio's goodput per
GPU in a regime counts for as long as the regime lasts. The one best static ratio is the one with
the highest goodput over all regimes; the plan may choose another ratio in every regime. While a
plan switches, the replicas that it moves serve nothing for `switch_s` seconds: that costs their
share of the replicas of the goodput of the regime that begins. With 0 s switching is free, and the
gain is an upper bound. The plan is the best one with that price (dynamic programming over regimes),
so that it switches only where that pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from profiler.traffic.regimes import Regime

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RatioPlan:
    """R regimes, Q ratios."""

    regimes: tuple[Regime, ...]
    ratios: tuple[str, ...]
    """"P:D" """
    goodput: FloatArray
    """(R, Q) good requests per second and GPU"""
    chosen: tuple[int, ...]
    """(R,) ratio in each regime"""
    static: int
    """the one best ratio"""
    switch_s: float
    gain: float
    """goodput of the plan over that of the static ratio, minus 1; switching paid"""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        rows = zip(self.regimes, self.goodput, self.chosen, strict=True)
        return {
            "static": self.ratios[self.static],
            "gain": self.gain,
            "switch_s": self.switch_s,
            "note": _note(self.switch_s),
            "stretches": [self._row(*row) for row in rows],
        }

    def _row(self, regime: Regime, goodput: FloatArray, chosen: int) -> dict[str, Any]:
        return {
            "start_s": regime.start_s,
            "end_s": regime.end_s,
            "num_requests": regime.num_requests,
            "rate_rps": regime.rate_rps,
            "mean_prompt_tokens": regime.mean_prompt_tokens,
            "mean_output_tokens": regime.mean_output_tokens,
            "best": self.ratios[_argmax(goodput, self.static)],
            "planned": self.ratios[chosen],
            "goodput_per_gpu_rps": float(goodput[chosen]),
            "static_goodput_per_gpu_rps": float(goodput[self.static]),
            "by_ratio": dict(zip(self.ratios, goodput.tolist(), strict=True)),
        }


def _note(switch_s: float) -> str:
    if switch_s == 0:
        return "switching is taken as free, so the gain is an upper bound"
    return f"replicas that move serve nothing for {switch_s:g} s"


def plan_ratios(
    regimes: Sequence[Regime],
    replicas: Sequence[tuple[int, int]],
    goodput: FloatArray,
    switch_s: float,
) -> RatioPlan:
    """The best plan and the best static ratio.

    Parameters
    ----------
    replicas
        (Q,) prefill and decode replicas of each ratio.
    goodput
        (R, Q) of each ratio in each regime, per second and GPU.
    switch_s
        Seconds for which a moved replica serves nothing.
    """
    seconds = np.array([regime.duration_s for regime in regimes])
    worth = goodput * seconds[:, None]
    total = worth.sum(axis=0)
    static = int(np.argmax(total))
    moved = switch_s * moved_share(replicas)
    chosen, planned = best_path(worth, goodput, moved, static)
    gain = planned / total[static] - 1 if total[static] > 0 else 0.0
    names = tuple(f"{p}:{d}" for p, d in replicas)
    return RatioPlan(tuple(regimes), names, goodput, chosen, static, switch_s, float(gain))


def moved_share(replicas: Sequence[tuple[int, int]]) -> FloatArray:
    """(Q, Q) share of the new ratio's replicas that come from the other pool, old to new."""
    return np.array(
        [[(max(0, p - q) + max(0, d - e)) / (p + d) for p, d in replicas] for q, e in replicas]
    )


def best_path(
    worth: FloatArray, goodput: FloatArray, moved_s: FloatArray, favourite: int
) -> tuple[tuple[int, ...], float]:
    """The ratio per regime with the highest worth less what the switches cost, and that sum.

    Parameters
    ----------
    worth
        (R, Q) goodput times seconds.
    goodput
        (R, Q) of which a switch into the ratio loses a part.
    moved_s
        (Q, Q) lost seconds of goodput of a switch, old to new.
    favourite
        Taken among equals, so that a plan switches only for a gain.
    """
    num_regimes, num_ratios = worth.shape
    best, back = worth[0].copy(), np.zeros((num_regimes, num_ratios), dtype=np.int64)
    for r in range(1, num_regimes):
        reach = best[:, None] - moved_s * goodput[r]
        back[r] = [_argmax(reach[:, q], q) for q in range(num_ratios)]
        best = worth[r] + reach[back[r], np.arange(num_ratios)]
    path = [_argmax(best, favourite)]
    for r in range(num_regimes - 1, 0, -1):
        path.append(int(back[r, path[-1]]))
    return tuple(path[::-1]), float(best.max())


def _argmax(values: FloatArray, favourite: int) -> int:
    """Index of the largest value, `favourite` among equals."""
    first = int(np.argmax(values))
    return favourite if values[favourite] == values[first] else first
