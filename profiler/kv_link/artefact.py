"""`LinkProfile`: a measured link as one JSON file, which a study can name as its link."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from profiler.errors import LinkError
from profiler.provenance import Provenance

SCHEMA_VERSION = 1
_KIND = "stallfree-kv-link"


@dataclass(frozen=True)
class SizeResult:
    """Transfers of one size."""

    size_bytes: int
    num_transfers: int
    median_s: float
    p95_s: float
    fitted_s: float

    @property
    def error(self) -> float:
        """Fitted against measured median, as a part of the measured one."""
        return self.fitted_s / self.median_s - 1.0


@dataclass(frozen=True)
class LinkProfile:
    """Seconds of a transfer of B bytes: latency_s + B / bytes_per_s. Filled by `measure_link`."""

    latency_s: float
    bytes_per_s: float
    block_bytes: int
    """of each descriptor of a transfer"""
    sizes: tuple[SizeResult, ...]
    """ascending"""
    transport: dict[str, Any]
    """library, its version, its settings, what the two ends are"""
    host: dict[str, Any]
    provenance: Provenance

    def to_dict(self) -> dict[str, Any]:
        return {"kind": _KIND, "schema_version": SCHEMA_VERSION, **asdict(self)}

    def save(self, path: Path) -> None:
        """Write the file `path`; its folder is made."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        path.write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> LinkProfile:
        """Read what `save` wrote.

        Raises
        ------
        LinkError
            The file cannot be read, is something else, or of another schema version.
        """
        try:
            data = dict(json.loads(path.read_text(encoding="utf-8")))
            if data.pop("kind") != _KIND:
                raise ValueError("it is something else")
            version = data.pop("schema_version")
            if version != SCHEMA_VERSION:
                raise ValueError(f"its schema version is {version}, not {SCHEMA_VERSION}")
            data["sizes"] = tuple(SizeResult(**size) for size in data["sizes"])
            data["provenance"] = Provenance(**data["provenance"])
            profile = cls(**data)
            if not (profile.latency_s > 0.0 and profile.bytes_per_s > 0.0):
                raise ValueError("latency_s and bytes_per_s must be above 0")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LinkError(
                f"no measured link can be read from {path} ({error}); measure it with "
                "`stallfree profile --kv-link`"
            ) from error
        return profile
