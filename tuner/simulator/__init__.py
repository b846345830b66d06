"""The simulator: an exact, compiled copy of vLLM's scheduler, driven by the step-latency model."""

from tuner.simulator.run import Simulation, StepRecord, is_compiled, prepare, simulate

__all__ = ["Simulation", "StepRecord", "is_compiled", "prepare", "simulate"]
