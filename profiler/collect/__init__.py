"""Profiling: which batch shapes to sample, and the loop that drives an engine through them."""

from profiler.collect.artefact import Profile
from profiler.collect.loop import profile
from profiler.collect.sentinel import run_sentinel

__all__ = ["Profile", "profile", "run_sentinel"]
