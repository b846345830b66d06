"""Which batch shapes a profile sampled, and which ones a simulation of a configuration reaches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dashboard.derive.points import fleet_of, simulated
from dashboard.derive.profiles import profile_place, profiles_of
from dashboard.derive.thinned import thinned
from profiler.collect import Profile
from profiler.engine_config import EngineConfig
from profiler.engines.base import Progress
from profiler.latency.fit import usable_steps
from profiler.latency.region import SLACK_OCTAVES, SampledRegion
from tuner.fleet_plan import AGGREGATED, FleetPlan
from tuner.results import RunFolder
from tuner.simulator import Simulation, Timeline

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MOST_POINTS = 1500
"""of one source and panel"""
_LIMITS = (("prefill_tokens", 0), ("num_decodes", 1), ("decode_depth", 2))
"""feature of `SampledRegion`, and its column of `_shapes`"""


def coverage(
    folder: Path, name: str, settings: dict[str, Any], *, progress: Progress
) -> dict[str, Any]:
    """Shapes of the steps of the profile called `name`, and of a simulation with `settings`.

    The simulation is of the run's traffic: of one engine, or of the busiest aggregated replica of
    a fleet, where these run on what the profile is of. Of prefill and decode replicas the
    simulator keeps no steps.

    Returns
    -------
    `sampled` and `simulated` (or None, with `why`): `num_steps`, `decode_only` and `with_chunks`,
    each with thinned `prompt_tokens`, `decodes` and `context` (per decode). `beyond`: feature ->
    share of the simulated steps above what was sampled (with the slack of `SampledRegion`).
    """
    progress(0, 3)
    profile = Profile.load(profile_place(RunFolder(folder), name))
    steps = usable_steps(profile.samples)
    sampled = _shapes(steps.prefill_tokens, steps.num_decodes, steps.decode_context)
    progress(1, 3)
    found = _timeline(folder, name, settings)
    plain = {"sampled": _plain(sampled), "simulated": None, "why": None, "beyond": {}}
    if isinstance(found, str):
        return plain | {"why": found}
    progress(2, 3)
    reached = _shapes(found.prefill_tokens, found.num_decodes, found.decode_context)
    beyond = _beyond(profile.model.region, reached)
    return plain | {"simulated": _plain(reached), "beyond": beyond}


def _shapes(prefill: IntArray, decodes: IntArray, context: IntArray) -> FloatArray:
    """(S, 3) prompt tokens, decodes, context per decode."""
    return np.stack([prefill, decodes, context / np.maximum(decodes, 1)], axis=1).astype(float)


def _plain(shapes: FloatArray) -> dict[str, Any]:
    decode_only = shapes[:, 0] == 0
    return {
        "num_steps": int(shapes.shape[0]),
        "decode_only": _thin(shapes[decode_only]),
        "with_chunks": _thin(shapes[~decode_only]),
    }


def _thin(shapes: FloatArray) -> dict[str, list[int]]:
    kept = shapes[thinned([shapes[:, i] for i in range(3)], MOST_POINTS)].round().astype(int)
    names = ("prompt_tokens", "decodes", "context")
    return {name: kept[:, i].tolist() for i, name in enumerate(names)}


def _beyond(region: SampledRegion, reached: FloatArray) -> dict[str, float]:
    """Feature -> share of the steps above what was sampled; only those with any."""
    slack, found = 2.0**SLACK_OCTAVES, {}
    for feature, column in _LIMITS:
        share = float(np.mean(reached[:, column] > slack * region.highest(feature)))
        if share > 0:
            found[feature] = share
    return found


def _timeline(folder: Path, name: str, settings: dict[str, Any]) -> Timeline | str:
    """Steps of the simulation, or why there are none."""
    if "pools" not in settings:
        return _kept(simulated(folder, settings))
    problem, plan = fleet_of(folder), FleetPlan.from_settings(settings)
    pool = plan.pool(AGGREGATED)
    if pool is None:
        return "the simulator keeps no single steps of prefill and decode replicas"
    kinds = {pool.system + f"-tp{pool.tp}", *(["profile"] if _is_own(folder, pool) else [])}
    if name not in kinds:
        return f"no replica of {plan.words()} runs on what this profile is of"
    simulation = problem.simulate(plan)
    requests = [use.num_requests for use in simulation.aggregated]
    busiest = np.flatnonzero(simulation.replica == int(np.argmax(requests)))
    one = problem.replica(AGGREGATED, pool.tp)
    config, trace = EngineConfig.from_settings(pool.settings), problem.trace.take(busiest)
    return _kept(one.simulate(config, trace=trace, timeline=True))


def _is_own(folder: Path, pool: Any) -> bool:
    """Whether the run's own profile is of the kind of `pool`."""
    return f"{pool.system}-tp{pool.tp}" not in profiles_of(RunFolder(folder))


def _kept(simulation: Simulation) -> Timeline:
    assert simulation.timeline is not None  # asked for
    return simulation.timeline
