"""A latency model and KV capacity from published GPU measurements, without a GPU."""

from profiler.engines.silicon.build import Silicon, build_silicon
from profiler.engines.silicon.spec import SiliconSpec, Terms

__all__ = ["Silicon", "SiliconSpec", "Terms", "build_silicon"]
