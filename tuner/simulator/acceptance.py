"""How many drafts are accepted: from a rate or a distribution to what the kernel reads.

The kernel draws nothing. A sequence of uniform numbers is drawn here, with a seed; verification
number k of request i takes element k from a place that belongs to i. It compares that number with
the chance that the first draft, the first two, ... are accepted, so that every configuration sees
the same luck for the same request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profiler.errors import SimulationError
from profiler.traffic.trace import Trace
from tuner.simulator.drafts import NUM_STEP, NUM_TOTALS, Drafts
from tuner.simulator.state import FloatArray, IntArray, Limits

NUM_DRAWS = 1 << 16
"""length of the sequence of uniform numbers, used over and over"""
_STRIDE = 40_503
"""places of consecutive requests are this far apart: odd, near the golden section of NUM_DRAWS"""

AcceptanceInput = float | Sequence[float] | FloatArray
"""rate of each draft, or chances of 0, 1, ... accepted drafts"""


@dataclass(frozen=True, eq=False)
class Acceptance:
    """Acceptance of the drafts of N requests, with up to K drafts per verification."""

    survival: FloatArray
    """(R, K) chance that draft i and all before it are accepted"""
    row: IntArray
    """(N,) row of `survival`"""
    start: IntArray
    """(N,) where the request's draws start"""
    draws: FloatArray
    """(NUM_DRAWS,) uniform in [0, 1)"""

    def count(self, request: int, turn: int, num_drafts: int) -> int:
        """Accepted ones of `num_drafts` drafts in verification number `turn` of `request`."""
        u = self.draws[(self.start[request] + turn) % self.draws.size]
        survives: npt.NDArray[np.bool_] = u < self.survival[self.row[request], :num_drafts]
        return int(survives.sum())


def survival_of_rates(rates: FloatArray, num_drafts: int) -> FloatArray:
    """(R, num_drafts) chances that draft i and all before it are accepted, for (R,) rates.

    Each draft is accepted with the same chance p, independently, up to the first rejection: p ** i
    (Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative Decoding", ICML
    2023, section 3.1). Their sum plus one is equation 1 there, the expected tokens per step.
    """
    return np.power(rates[:, None], np.arange(1, num_drafts + 1))


def survival_of_counts(chances: FloatArray, num_drafts: int) -> FloatArray:
    """(1, num_drafts) the same from the (num_drafts + 1,) chances of 0, 1, ... accepted drafts.

    Raises
    ------
    SimulationError
        There are not num_drafts + 1 chances, one is negative, or they do not sum to 1.
    """
    if chances.shape != (num_drafts + 1,):
        raise SimulationError(
            f"an acceptance distribution needs the chances of 0 to {num_drafts} accepted drafts "
            f"(num_speculative_tokens={num_drafts}), got {chances.size} numbers"
        )
    if not (np.isfinite(chances).all() and (chances >= 0).all() and abs(chances.sum() - 1) < 1e-6):
        raise SimulationError(
            "the chances of an acceptance distribution must be at least 0 and sum to 1, got "
            f"{chances.tolist()}"
        )
    return np.cumsum(chances[:0:-1])[::-1][None, :]


def build_acceptance(
    trace: Trace, num_drafts: int, given: AcceptanceInput | None, seed: int | None
) -> Acceptance:
    """Acceptance of the drafts of `trace`: `given`, else the rates that the trace carries.

    Parameters
    ----------
    trace
        Traffic; N requests.
    num_drafts
        Draft tokens per decode and step.
    given
        A rate in [0, 1], or the (num_drafts + 1,) chances of 0, 1, ... accepted drafts.
    seed
        Draws the uniform numbers; None is 0.

    Raises
    ------
    SimulationError
        Neither is there, or what is given breaks a rule.
    """
    n = trace.num_requests
    row = np.zeros(n, dtype=np.int64)
    chances = None if given is None else np.asarray(given, dtype=np.float64)
    if chances is not None and chances.ndim == 1:
        survival = survival_of_counts(chances, num_drafts)
    elif chances is not None:
        if not (chances.ndim == 0 and 0.0 <= chances <= 1.0):
            raise SimulationError(f"an acceptance rate must be in [0, 1], got {given}")
        survival = survival_of_rates(chances.reshape(1), num_drafts)
    elif trace.acceptance_rate is not None:
        rates, row = np.unique(trace.acceptance_rate, return_inverse=True)
        survival = survival_of_rates(rates, num_drafts)
    else:
        raise SimulationError(
            f"num_speculative_tokens={num_drafts} needs to know how many drafts are accepted; give "
            "an acceptance rate (--acceptance 0.7), or traffic that carries one"
        )
    draws = np.random.default_rng(seed or 0).random(NUM_DRAWS)
    start = np.arange(n, dtype=np.int64) * _STRIDE % NUM_DRAWS
    return Acceptance(survival, row.reshape(-1).astype(np.int64), start, draws)


def build_drafts(
    acceptance: Acceptance, accepted: npt.NDArray[np.bool_], limits: Limits, num_classes: int
) -> Drafts:
    """The kernel's state for the requests that the engine accepts."""
    n, places = int(accepted.sum()), 2 * limits.max_active

    def zeros(size: int) -> IntArray:
        return np.zeros(size, dtype=np.int64)

    return Drafts(
        draws=acceptance.draws,
        start=acceptance.start[accepted],
        survival=acceptance.survival.reshape(-1).copy(),
        row=acceptance.row[accepted],
        verified=zeros(n),
        coming=zeros(n),
        step=zeros(NUM_STEP),
        totals=zeros(NUM_TOTALS),
        sizes=zeros(2),
        ends=np.zeros(2),
        request=zeros(places),
        drafted=zeros(places),
        accepted=zeros(places),
        extra=zeros(num_classes),
    )
