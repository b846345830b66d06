"""What this machine is: processor, cores, memory. For the facts kept with every artefact."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Hardware:
    """Filled by `this_machine`."""

    processor: str
    num_cores: int
    """cores this process may use"""
    memory_bytes: int
    system: str
    """operating system and its release"""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def this_machine(cpuinfo: Path = _CPUINFO) -> Hardware:
    """Look at the machine this process runs on."""
    return Hardware(
        processor=_processor_name(cpuinfo),
        num_cores=_usable_cores(),
        memory_bytes=int(psutil.virtual_memory().total),
        system=f"{platform.system()} {platform.release()}",
    )


def _usable_cores() -> int:
    try:
        return len(psutil.Process().cpu_affinity())
    except AttributeError:  # macOS has no affinity
        return psutil.cpu_count() or 1


def _processor_name(cpuinfo: Path) -> str:
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
