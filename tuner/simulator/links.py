"""Links between prefill and decode engines by name, with where their figures come from.

Rates are of one GPU's own link, in one direction. `Link.latency_s` is what a load takes beyond its
bytes: posting it, its completion, the report to the worker; not the time until the engine's next
step. No figure replaces a measurement: `stallfree profile --kv-link`.

Line rates
    NVLink: 18 links of 25 GB/s (NVLink 4: H100, H200) and of 50 GB/s (NVLink 5: B200) in each
    direction; the data sheets' 900 and 1,800 GB/s count both. PCIe x16: 16 lanes of 16 GT/s (4.0)
    and 32 GT/s (5.0), 128b/130b coded (PCI-SIG base specifications). InfiniBand 4x HDR and NDR:
    200 and 400 Gb/s (InfiniBand Trade Association roadmap). Ethernet: IEEE 802.3.
Efficiency
    `Rates.source` of each. What is not measured is marked "assumed".
Latency
    All assumed. To go by: a NIXL read of 256 KiB over 100 Gb/s RDMA took 31 us, 10 us more than its
    bytes (github.com/LMCache/LMCache/pull/4161); NIXL posts that go through the host's network
    stack took about 0.6 ms (github.com/ai-dynamo/nixl/pull/2276); a split engine was left with
    5 ms (H100, 400 Gb/s) to 8 ms (A100, 200 Gb/s) that layer-wise transfer could not hide
    (Splitwise, Patel et al., ISCA 2024, section VI).
Small blocks
    Each block of each layer is moved by a descriptor of its own. At 64 KiB the same NIXL reads lost
    1 % of the bandwidth, at 16 KiB 5 %, at 4 KiB 60 % (LMCache, as above): few KV heads per rank,
    or small blocks, need a measured link.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from profiler.errors import LinkError
from profiler.kv_link.artefact import LinkProfile
from tuner.simulator.pool_build import Link

_NCCL_NVLINK = "380 of 450 GB/s between two H100 (github.com/NVIDIA/nccl/issues/1264)"
_RDMA_S, _LOCAL_S, _TCP_S = 1e-4, 5e-5, 5e-4


@dataclass(frozen=True)
class Rates:
    """A link by name."""

    line_bytes_per_s: float
    """of one GPU, one direction"""
    efficiency: float
    """part of it that moves KV"""
    latency_s: float
    """assumed"""
    title: str
    source: str
    """of the efficiency"""

    @property
    def bytes_per_s(self) -> float:
        return self.line_bytes_per_s * self.efficiency


def _gbit(per_s: float) -> float:
    return per_s * 1e9 / 8


LINKS = {
    "nvlink4": Rates(450e9, 0.84, _LOCAL_S, "NVLink 4 (H100, H200)", _NCCL_NVLINK),
    "nvlink5": Rates(900e9, 0.84, _LOCAL_S, "NVLink 5 (B200)", "assumed as NVLink 4"),
    "pcie4": Rates(
        16 * 16e9 / 8 * 128 / 130,
        0.84,
        _LOCAL_S,
        "PCIe 4.0 x16",
        "26.3 of 31.5 GB/s between two GPUs (github.com/NVIDIA/nvbandwidth/issues/50)",
    ),
    "pcie5": Rates(
        16 * 32e9 / 8 * 128 / 130,
        0.84,
        _LOCAL_S,
        "PCIe 5.0 x16",
        "52.8 of 63 GB/s from an H100 to its host (github.com/NVIDIA/nvbandwidth/issues/24)",
    ),
    "ib-hdr": Rates(
        _gbit(200),
        0.96,
        _RDMA_S,
        "InfiniBand HDR",
        "24 of 25 GB/s (an NCCL maintainer, github.com/NVIDIA/nccl-tests/issues/119)",
    ),
    "ib-ndr": Rates(_gbit(400), 0.96, _RDMA_S, "InfiniBand NDR", "assumed as HDR"),
    "roce-100": Rates(_gbit(100), 0.87, _RDMA_S, "RoCE v2, 100 Gb/s", "assumed as 200 Gb/s"),
    "roce-200": Rates(
        _gbit(200),
        0.87,
        _RDMA_S,
        "RoCE v2, 200 Gb/s",
        "87 of 100 GB/s over 4 ports, 40 GB of KV (README of Mooncake's transfer engine)",
    ),
    "roce-400": Rates(
        _gbit(400),
        0.85,
        _RDMA_S,
        "RoCE v2, 400 Gb/s",
        "341 of 400 Gb/s, nixlbench over UCX (github.com/ai-dynamo/nixl/pull/1647); "
        "Mooncake: 190 of 400 GB/s over 8 ports",
    ),
    "tcp-10": Rates(
        _gbit(10),
        0.94,
        _TCP_S,
        "TCP, 10 Gb/s Ethernet",
        "1,448 bytes in each 1,538 on the wire (MTU 1,500; IEEE 802.3, RFC 7323)",
    ),
    "tcp-25": Rates(_gbit(25), 0.94, _TCP_S, "TCP, 25 Gb/s Ethernet", "as 10 Gb/s"),
    "tcp-100": Rates(
        _gbit(100),
        0.42,
        _TCP_S,
        "TCP, 100 Gb/s Ethernet",
        "about 42 Gb/s per core (Cai et al., Understanding Host Network Stack Overheads, "
        "SIGCOMM 2021); Mooncake's TCP: 36 of 100 GB/s over 4 ports",
    ),
}
"""name -> figures"""


def link_named(
    name: str,
    *,
    latency_s: float | None = None,
    bytes_per_s: float | None = None,
    overlap_layers: int = 1,
    folder: Path = Path(),
) -> Link:
    """The link that a study or a command line names.

    Parameters
    ----------
    name
        One of `LINKS`, or the path of what `stallfree profile --kv-link` left behind.
    latency_s, bytes_per_s
        Instead of its own figures.
    overlap_layers
        See `Link`.
    folder
        Where a relative path starts.

    Raises
    ------
    LinkError
        There is no such link, or the file cannot be read.
    """
    if name in LINKS:
        rates = LINKS[name]
        link = Link(rates.latency_s, rates.bytes_per_s, overlap_layers=overlap_layers)
    else:
        link = replace(_measured(name, folder), overlap_layers=overlap_layers)
    return replace(
        link,
        latency_s=link.latency_s if latency_s is None else latency_s,
        bytes_per_s=link.bytes_per_s if bytes_per_s is None else bytes_per_s,
    )


def _measured(name: str, folder: Path) -> Link:
    try:
        path = folder / Path(name).expanduser()
    except RuntimeError:  # "~somebody" whom the machine does not know
        path = folder / name
    if not path.exists():
        near = get_close_matches(name.lower(), LINKS, n=3, cutoff=0.0)
        raise LinkError(
            f"no link and no file is named {name!r}; nearest: {', '.join(near)}, or measure one "
            "with `stallfree profile --kv-link`"
        )
    measured = LinkProfile.load(path)
    return Link(measured.latency_s, measured.bytes_per_s)


def links_table() -> str:
    """Every named link, one line each in Markdown."""
    rows = ["| link | | GB/s | of a line rate of | latency (assumed) | efficiency from |"]
    rows.append("|---|---|---|---|---|---|")
    for name, rates in LINKS.items():
        rows.append(
            f"| `{name}` | {rates.title} | {rates.bytes_per_s / 1e9:.4g} | "
            f"{rates.line_bytes_per_s / 1e9:.4g} | {rates.latency_s * 1e3:g} ms | {rates.source} |"
        )
    return "\n".join(rows)
