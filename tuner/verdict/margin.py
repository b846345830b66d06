"""The margin between the two sides, the verdict on it, and its chance.

Margin
    With A and D the goodput per GPU of the aggregated and the split deployment on the same
    requests, (D - A) / max(A, D): above 0 the split one is ahead. It lies in [-1, 1], is the same
    in size whichever side is called first, and exists when one side serves nothing well.
    Goodput per GPU is the share of good requests (`tuner.metrics`) times the arrival rate over the
    number of GPUs. `Metrics.goodput_rps` divides by the time to the last finish instead; on a
    piece of traffic that adds the last few requests' run time, which endless traffic would not
    have, and would make two deployments differ that serve the same requests well.

    Why not the highest load that meets the SLOs: it does not depend on the load, so there would be
    no load to flip at; it hangs on one percentile crossing its limit, so that one late request in a
    hundred decides; and each of its values takes some ten simulations. It is given beside the
    margin, as the headroom of each side.

Verdict
    The side that is ahead, if it is so by at least `TIE` (a few requests at a limit decide less)
    and wins with a chance of at least `LIKELY`; else a tie, in which the simpler deployment, the
    aggregated one, is the one to run.

Probability
    Share of the arrival windows (`tuner.windows`), the traffic itself included, in which the side
    that is ahead on the traffic itself has the higher goodput per GPU; windows with equal goodput
    count half. Both sides see the same requests and the same seeds of jitter in each window
    (common random numbers), so that what varies between windows but not between sides cancels.
    The interval of the margin is the cheap bootstrap's (`tuner.intervals`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.intervals import half_width
from tuner.search.pareto import GOODPUT_TIE, LIKELY
from tuner.verdict.options import Side

TIE_WORD = "tie"
TIE = GOODPUT_TIE
"""margins below this are a tie"""


@dataclass(frozen=True)
class Comparison:
    """Aggregated against split on one piece of traffic."""

    verdict: str
    """"aggregated", "disaggregated" or "tie" """
    margin: float
    """in [-1, 1]; above 0 the split deployment is ahead"""
    interval: tuple[float, float] | None
    """90 % interval of the margin; None without drawn windows"""
    probability: float | None
    """chance that the side ahead wins; None without drawn windows"""
    windows: int
    """the traffic itself included"""


def margin(aggregated: float, disaggregated: float) -> float:
    """Relative difference of goodput per GPU, in [-1, 1]; 0 when both are 0."""
    most = max(aggregated, disaggregated)
    return (disaggregated - aggregated) / most if most > 0 else 0.0


def leader(value: float) -> str:
    """What a margin says by itself."""
    if abs(value) < TIE:
        return TIE_WORD
    return (Side.DISAGGREGATED if value > 0 else Side.AGGREGATED).value


def compare(aggregated: Sequence[float], disaggregated: Sequence[float]) -> Comparison:
    """The verdict from goodput per GPU in each window; the first is the traffic itself.

    Parameters
    ----------
    aggregated, disaggregated
        (W,) of the same windows in the same order.
    """
    margins = np.array([margin(a, d) for a, d in zip(aggregated, disaggregated, strict=True)])
    own = float(margins[0])
    if len(margins) == 1:
        return Comparison(leader(own), own, None, None, 1)
    half = float(half_width(margins[:1], margins[1:, None])[0])
    chance = probability(margins)
    verdict = leader(own) if chance >= LIKELY else TIE_WORD
    ends = (max(-1.0, own - half), min(1.0, own + half))
    return Comparison(verdict, own, ends, chance, len(margins))


def probability(margins: Sequence[float] | np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Share of the (W,) margins on the side of the first; zeros count half, and so do all when the
    first is 0."""
    signs = np.sign(np.asarray(margins))
    return float(np.mean((1 + signs * signs[0]) / 2))
