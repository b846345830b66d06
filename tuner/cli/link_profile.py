"""What `stallfree profile --kv-link` does."""

from __future__ import annotations

import platform
from pathlib import Path

from rich.table import Table

from profiler.errors import LinkError
from profiler.kv_link.artefact import LinkProfile
from profiler.kv_link.measure import measure_link
from tuner.cli.console import RichUi, print_json, stdout
from tuner.results import DEFAULT_ROOT
from tuner.whole_files import writing

_MOST_ERROR = 0.25


def profile_link(out: Path | None, json: bool) -> None:
    """Measure the link of this machine, keep and print it. Raises `StallfreeError` subclasses."""
    ui, place = RichUi(), out or DEFAULT_ROOT / "links" / f"{platform.node()}.json"
    if place.is_dir():
        raise LinkError(f"--out is the file of the link, got the folder {place}; give FILE.json")
    ui.stage("measuring NIXL transfers between two processes of this machine")
    with ui.progress("transfers") as progress:
        measured = measure_link(progress=progress)
    with writing(place):
        measured.save(place)
    if json:
        print_json({"link": str(place), **measured.to_dict()})
        return
    _print(measured)
    stdout.print(f"Link: {place}", highlight=False, soft_wrap=True)


def _print(measured: LinkProfile) -> None:
    table = Table(title="Measured against latency + bytes / bandwidth")
    for name in ("MiB", "transfers", "median ms", "p95 ms", "fitted ms", "error"):
        table.add_column(name, justify="right")
    for size in measured.sizes:
        table.add_row(
            f"{size.size_bytes / 2**20:g}",
            str(size.num_transfers),
            f"{size.median_s * 1e3:.3f}",
            f"{size.p95_s * 1e3:.3f}",
            f"{size.fitted_s * 1e3:.3f}",
            f"{size.error:+.1%}",
        )
    stdout.print(table)
    stdout.print(
        f"{measured.bytes_per_s / 1e9:.3g} GB/s, latency {measured.latency_s * 1e3:.3g} ms, in "
        f"blocks of {measured.block_bytes / 1024:g} KiB, {measured.transport['library']}",
        highlight=False,
    )
    if measured.worst_error > _MOST_ERROR:
        stdout.print(
            f"The sizes do not agree on one line (up to {measured.worst_error:.0%} off): measure "
            "again on an idle machine, or trust it only near the sizes that fit.",
            highlight=False,
        )
