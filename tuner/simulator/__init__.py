"""The simulator: an exact, compiled copy of vLLM's scheduler, driven by the step-latency model."""

from tuner.simulator.compilation import is_compiled, prepare
from tuner.simulator.run import Simulation, simulate
from tuner.simulator.timeline import OwnGap, StepRecord, Timeline

__all__ = ["OwnGap", "Simulation", "StepRecord", "Timeline", "is_compiled", "prepare", "simulate"]
