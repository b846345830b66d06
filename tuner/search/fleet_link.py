"""The link of a fleet, and what moves over it: the one place that turns a study's words into it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profiler.errors import StudyError
from tuner.fleet_section import LinkSection
from tuner.simulator import Link

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def link_of(section: LinkSection) -> Link:
    """The link that a study gives. Raises `StudyError` for a name that is not known."""
    if section.latency_s is None or section.bytes_per_s is None:
        raise StudyError(
            f"fleet.link: no link is named {section.name!r}; give latency_s and bytes_per_s"
        )
    return Link(section.latency_s, section.bytes_per_s, section.shared)


def bytes_per_token(shape: Mapping[str, Any], prefill_tp: int, decode_tp: int) -> float:
    """Bytes of KV per prompt token into each GPU of a decode replica."""
    del prefill_tp
    heads = max(1, int(shape["num_kv_heads"]) // decode_tp)
    return float(2 * shape["num_layers"] * heads * shape["head_size"] * _BYTES[shape["dtype"]])
