"""The link of a fleet: the one place that turns a study's words into it."""

from __future__ import annotations

from dataclasses import replace

from profiler.kv_transfer import KvShape
from tuner.fleet_section import LinkSection
from tuner.simulator import Link
from tuner.simulator.links import link_named


def link_of(section: LinkSection, kv: KvShape) -> Link:
    """The link that a study gives, for a model with `kv`.

    Raises `LinkError` for a name that is neither known nor a measured link's path.
    """
    layers = kv.num_layers if section.layerwise else 1
    if section.name is not None:
        named = link_named(
            section.name,
            latency_s=section.latency_s,
            bytes_per_s=section.bytes_per_s,
            overlap_layers=layers,
        )
        return replace(named, shared=section.shared)
    assert section.latency_s is not None and section.bytes_per_s is not None  # checked
    return Link(section.latency_s, section.bytes_per_s, section.shared, layers)
