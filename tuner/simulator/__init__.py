"""The simulator: an exact, compiled copy of vLLM's scheduler, driven by the step-latency model."""

from tuner.simulator.compilation import is_compiled, prepare
from tuner.simulator.fleet import Fleet, FleetSimulation, simulate_fleet
from tuner.simulator.pool_build import Link, Pool
from tuner.simulator.router import Router
from tuner.simulator.run import Simulation, simulate
from tuner.simulator.timeline import OwnGap, StepRecord, Timeline

__all__ = [
    "Fleet",
    "FleetSimulation",
    "Link",
    "OwnGap",
    "Pool",
    "Router",
    "Simulation",
    "StepRecord",
    "Timeline",
    "is_compiled",
    "prepare",
    "simulate",
    "simulate_fleet",
]
