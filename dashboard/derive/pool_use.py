"""What the pools of a fleet do, from one simulation of it on all traffic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dashboard.derive.points import fleet_of
from profiler.engines.base import Progress
from tuner.fleet_plan import AGGREGATED, DECODE, PREFILL, FleetPlan
from tuner.search.fleet_problem import FleetProblem
from tuner.simulator.fleet import FleetSimulation

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

INSTANTS = 240
"""at which the requests in progress are counted"""


def pool_use(folder: Path, settings: dict[str, Any], *, progress: Progress) -> dict[str, Any]:
    """Simulate the fleet with `settings` (`FleetPlan.settings`) on the run's traffic.

    Returns
    -------
    `time_s` (I,), and `pools`: role -> `load`, `requests` (R,), `tokens` (R,) prompt tokens (of
    decode replicas output tokens), `preemptions`, and requests in progress at the instants: `mean`,
    `least`, `most` (I,) over the replicas. `transfer`: p50 and p99 seconds of the loads and of the
    wait for them; None without a decode pool. A request is in progress on a prefill replica from
    its arrival to its token there, on a decode replica from then to its last token.
    """
    progress(0, 3)
    problem, plan = fleet_of(folder), FleetPlan.from_settings(settings)
    progress(1, 3)
    simulation = problem.simulate(plan)
    progress(2, 3)
    ends = simulation.outcomes.finish_s
    last = float(np.nanmax(ends)) if np.isfinite(ends).any() else problem.trace.duration_s
    time_s = np.linspace(0.0, last, INSTANTS)
    use = problem.use(plan, simulation)
    pools = {
        role: use[role] | _replicas(problem, simulation, role, time_s) for role in _roles(plan)
    }
    return {"time_s": _rounded(time_s), "pools": pools, "transfer": _transfer(simulation)}


def _roles(plan: FleetPlan) -> list[str]:
    return [pool.role for pool in plan.pools]


def _replicas(
    problem: FleetProblem, simulation: FleetSimulation, role: str, time_s: FloatArray
) -> dict[str, Any]:
    """What a pool's replicas had to do, and how many requests at once."""
    count, first = _numbers(simulation, role)
    chosen = simulation.decode_replica if role == DECODE else simulation.replica
    with np.errstate(invalid="ignore"):
        ours = (chosen >= first) & (chosen < first + count)
    index = (chosen[ours] - first).astype(np.int64)
    begins, ends = _stay(simulation, role)
    tokens = simulation.outcomes.output_tokens if role == DECODE else problem.trace.prompt_tokens
    busy = in_progress(begins[ours], ends[ours], index, count, time_s)
    return {
        "tokens": np.bincount(index, tokens[ours], count).astype(np.int64).tolist(),
        "mean": _rounded(busy.mean(axis=0)),
        "least": busy.min(axis=0).tolist(),
        "most": busy.max(axis=0).tolist(),
    }


def _numbers(simulation: FleetSimulation, role: str) -> tuple[int, int]:
    """Replicas of a pool, and the number of its first one."""
    one, prefill = len(simulation.aggregated), len(simulation.prefill)
    return {
        AGGREGATED: (one, 0),
        PREFILL: (prefill, one),
        DECODE: (len(simulation.decode), one + prefill),
    }[role]


def _stay(simulation: FleetSimulation, role: str) -> tuple[FloatArray, FloatArray]:
    """(N,) begin and end on a replica of `role`; infinite for an end that never came."""
    outcomes = simulation.outcomes
    handed = simulation.prefill_s
    begins = handed if role == DECODE else outcomes.arrival_s
    ends = handed if role == PREFILL else outcomes.finish_s
    return begins, np.where(np.isnan(ends), np.inf, ends)


def in_progress(
    begins: FloatArray, ends: FloatArray, replica: IntArray, count: int, time_s: FloatArray
) -> IntArray:
    """(R, I) requests in progress on each of `count` replicas at each instant.

    Parameters
    ----------
    begins, ends, replica
        (N,) of each request; it is in progress from its begin on, no more at its end.
    """
    rows = []
    for i in range(count):
        mine = replica == i
        begun = np.searchsorted(np.sort(begins[mine]), time_s, side="right")
        rows.append(begun - np.searchsorted(np.sort(ends[mine]), time_s, side="right"))
    return np.array(rows, dtype=np.int64).reshape(count, time_s.size)


def _transfer(simulation: FleetSimulation) -> dict[str, float] | None:
    """Seconds of the KV loads, and from the prefill's token to the begin of the load."""
    load = simulation.load_end_s - simulation.load_start_s
    wait = simulation.load_start_s - simulation.prefill_s
    if not np.isfinite(load).any():
        return None
    found: dict[str, float] = {}
    for name, values in (("load", load), ("wait", wait)):
        p50, p99 = np.nanquantile(values, [0.5, 0.99])
        found |= {f"{name}_p50_s": float(p50), f"{name}_p99_s": float(p99)}
    return found


def _rounded(values: FloatArray) -> list[float]:
    return [round(value, 3) for value in values.tolist()]
