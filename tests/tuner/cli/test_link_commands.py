"""`stallfree profile --kv-link` and `stallfree links`."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

import profiler.kv_link.measure as measure
from profiler.kv_link.measure import LinkPlan
from tuner.simulator.links import LINKS, link_named

MIB = 1 << 20


def test_links_are_listed(stallfree) -> None:
    code, out, _ = stallfree("links")
    assert code == 0
    assert "ib-ndr" in out
    assert "assumed as HDR" in out
    code, out, _ = stallfree("links", "--json")
    shown = json.loads(out)
    assert list(shown) == list(LINKS)
    assert shown["ib-hdr"]["bytes_per_s"] == 24e9


def test_without_nixl_the_extra_is_named(stallfree, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(measure, "find_spec", lambda n: None if n == "nixl" else found(n))
    code, _, err = stallfree("profile", "--kv-link")
    assert code == 2
    expected = "error: NIXL is not installed; install stallfree[nixl] (Linux)"
    assert err.splitlines()[-1] == expected


def test_the_link_is_measured_alone(stallfree) -> None:
    code, _, err = stallfree("profile", "--kv-link", "--silicon")
    assert code == 2
    assert "--kv-link measures the link alone" in err


@pytest.mark.engine
def test_a_real_link(stallfree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nixl_cu12", reason="NIXL is not installed: stallfree[nixl]")
    small = LinkPlan(sizes_bytes=(MIB, 4 * MIB, 16 * MIB), repeats=5, memory_bytes=32 * MIB)
    monkeypatch.setattr(measure, "LinkPlan", lambda: small)
    place = tmp_path / "link.json"
    code, out, _ = stallfree("profile", "--kv-link", "-o", place)
    assert code == 0
    assert "median ms" in out
    assert "nixl 1." in out
    kept = json.loads(place.read_text())
    assert [size["size_bytes"] for size in kept["sizes"]] == list(small.sizes_bytes)
    assert all(0.0 < size["median_s"] < 10.0 for size in kept["sizes"])
    assert kept["provenance"]["stallfree_version"]
    link = link_named(str(place))
    assert (link.latency_s, link.bytes_per_s) == (kept["latency_s"], kept["bytes_per_s"])
