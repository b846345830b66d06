"""Profiling: which batch shapes to sample, and the loop that drives an engine through them."""

from profiler.collect.artefact import Profile
from profiler.collect.loop import profile
from profiler.collect.sentinel import idle_frontend_s, run_sentinel

__all__ = ["Profile", "idle_frontend_s", "profile", "run_sentinel"]
