"""The simulator: an exact, compiled copy of vLLM's scheduler, driven by the step-latency model."""

from tuner.simulator.compilation import is_compiled, prepare
from tuner.simulator.pool_build import Link, Pool
from tuner.simulator.pools import PoolSimulation, simulate_pools
from tuner.simulator.run import Simulation, simulate
from tuner.simulator.timeline import OwnGap, StepRecord, Timeline

__all__ = [
    "Link",
    "OwnGap",
    "Pool",
    "PoolSimulation",
    "Simulation",
    "StepRecord",
    "Timeline",
    "is_compiled",
    "prepare",
    "simulate",
    "simulate_pools",
]
