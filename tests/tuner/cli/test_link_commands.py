"""`stallfree profile --kv-link` and `stallfree links`."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

import profiler.kv_link.measure as measure
import tuner.cli.link_profile as link_profile
from profiler.kv_link.artefact import LinkProfile, SizeResult
from profiler.kv_link.measure import LinkPlan
from profiler.provenance import provenance_now
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


def test_a_folder_is_no_place_for_a_link(stallfree, tmp_path: Path) -> None:
    code, _, err = stallfree("profile", "--kv-link", "-o", tmp_path)
    assert (code, "give FILE.json" in err, err.count("\n")) == (2, True, 1)


@pytest.mark.parametrize(("median_s", "agrees"), [(4e-3, True), (8e-3, False)])
def test_sizes_that_do_not_agree_are_said_to(
    stallfree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, median_s: float, agrees: bool
) -> None:
    sizes = (SizeResult(MIB, 5, 1e-3, 2e-3, 1e-3), SizeResult(4 * MIB, 5, median_s, 9e-3, 4e-3))
    made = LinkProfile(
        1e-4, 1e9, 65536, sizes, {"library": "nixl 1.5.1"}, {"processor": "any"}, provenance_now()
    )
    monkeypatch.setattr(link_profile, "measure_link", lambda progress: made)
    code, out, _ = stallfree("profile", "--kv-link", "-o", tmp_path / "link.json")
    assert code == 0
    assert "1 GB/s, latency 0.1 ms, in blocks of 64 KiB, nixl 1.5.1" in out
    assert ("do not agree on one line (up to 50% off)" in " ".join(out.split())) is not agrees
    code, out, _ = stallfree("profile", "--kv-link", "--json", "-o", tmp_path / "link.json")
    assert json.loads(out)["sizes"][1]["median_s"] == median_s
    (tmp_path / "file").touch()
    code, _, err = stallfree("profile", "--kv-link", "-o", tmp_path / "file" / "link.json")
    assert (code, "cannot be written" in err) == (2, True)


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
