"""Links by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.errors import LinkError
from profiler.kv_link.artefact import LinkProfile, SizeResult
from profiler.provenance import provenance_now
from tuner.simulator import Link
from tuner.simulator.links import LINKS, link_named, links_table

GBIT = 1e9 / 8

# GB/s of one direction, as data sheets and standards say.
LINE_RATES = {
    "nvlink4": 900e9 / 2,
    "nvlink5": 1800e9 / 2,
    "pcie4": 31.5e9,
    "pcie5": 63.0e9,
    "ib-hdr": 200 * GBIT,
    "ib-ndr": 400 * GBIT,
    "roce-100": 100 * GBIT,
    "roce-200": 200 * GBIT,
    "roce-400": 400 * GBIT,
    "tcp-10": 10 * GBIT,
    "tcp-25": 25 * GBIT,
    "tcp-100": 100 * GBIT,
}

# bytes/s that the cited measurement reached, per link
MEASURED = {
    "nvlink4": 380e9,
    "pcie4": 26.34e9,
    "pcie5": 52.77e9,
    "ib-hdr": 24e9,
    "roce-200": 87e9 / 4,
    "roce-400": 341 * GBIT,
    "tcp-100": 42 * GBIT,
}


def test_every_link_has_the_cited_line_rate() -> None:
    assert set(LINKS) == set(LINE_RATES)
    for name, rates in LINKS.items():
        assert rates.line_bytes_per_s == pytest.approx(LINE_RATES[name], rel=2e-3), name
        assert 0.0 < rates.efficiency < 1.0
        assert 0.0 < rates.latency_s < 0.01


@pytest.mark.parametrize("name", MEASURED)
def test_efficiency_is_that_of_the_cited_measurement(name: str) -> None:
    assert LINKS[name].bytes_per_s == pytest.approx(MEASURED[name], rel=0.01)


def test_what_is_not_measured_says_so() -> None:
    others = set(LINKS) - set(MEASURED)
    assert {name for name in others if "assumed" in LINKS[name].source} == others - {
        "tcp-10",  # by the headers of its packets
        "tcp-25",
    }


def test_a_name_gives_a_link_that_can_be_changed() -> None:
    assert link_named("ib-ndr") == Link(1e-4, 0.96 * 50e9)
    changed = link_named("tcp-10", latency_s=0.002, bytes_per_s=1e9, overlap_layers=32)
    assert changed == Link(0.002, 1e9, overlap_layers=32)


def a_profile() -> LinkProfile:
    sizes = (SizeResult(1 << 20, 5, 1.1e-3, 2e-3, 1e-3), SizeResult(1 << 22, 5, 4e-3, 5e-3, 4e-3))
    return LinkProfile(
        latency_s=1e-4,
        bytes_per_s=1e9,
        block_bytes=65536,
        sizes=sizes,
        transport={"library": "nixl 1.5.1"},
        host={"processor": "any"},
        provenance=provenance_now(),
    )


def test_a_measured_link_is_kept_and_named(tmp_path: Path) -> None:
    profile = a_profile()
    profile.save(tmp_path / "links" / "here.json")
    assert LinkProfile.load(tmp_path / "links" / "here.json") == profile
    assert profile.sizes[0].error == pytest.approx(-1 / 11)
    assert link_named("links/here.json", folder=tmp_path) == Link(1e-4, 1e9)
    assert link_named(str(tmp_path / "links" / "here.json"), overlap_layers=2).overlap_layers == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "no measured link can be read from"),
        ("[1, 2]", "no measured link can be read from"),
        ('{"latency_s": 1}', "kind"),
        ('{"kind": "other"}', "it is something else"),
        ('{"kind": "stallfree-kv-link", "schema_version": 9}', "schema version is 9, not 1"),
        ('{"kind": "stallfree-kv-link", "schema_version": 1}', "sizes"),
    ],
)
def test_a_file_that_is_no_link_is_one_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "link.json").write_text(content)
    with pytest.raises(LinkError, match=message) as caught:
        link_named("link.json", folder=tmp_path)
    assert "\n" not in str(caught.value)


def test_a_link_without_latency_is_not_read(tmp_path: Path) -> None:
    a_profile().save(tmp_path / "link.json")
    text = (tmp_path / "link.json").read_text().replace('"latency_s": 0.0001', '"latency_s": 0')
    (tmp_path / "link.json").write_text(text)
    with pytest.raises(LinkError, match="latency_s and bytes_per_s must be above 0"):
        link_named("link.json", folder=tmp_path)


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(LinkError, match="no link and no file is named 'IB-NDR2'; nearest: ib-ndr"):
        link_named("IB-NDR2")


def test_a_home_that_is_not_there_is_no_file() -> None:
    with pytest.raises(LinkError, match="no link and no file is named '~nobody-here/link'"):
        link_named("~nobody-here/link")


def test_the_table_has_a_line_for_each() -> None:
    lines = links_table().splitlines()
    assert len(lines) == 2 + len(LINKS)
    assert lines[-1].startswith("| `tcp-100` | TCP, 100 Gb/s Ethernet | 5.25 | 12.5 | 0.5 ms |")
