"""Profiling: which batch shapes to sample, and the loop that drives an engine through them."""

from profiler.collect.artefact import Profile
from profiler.collect.frontend import delivery_s, inward_s
from profiler.collect.loop import profile
from profiler.collect.sentinel import run_sentinel

__all__ = ["Profile", "delivery_s", "inward_s", "profile", "run_sentinel"]
