"""`stallfree links`: the links that Stallfree knows by name."""

from __future__ import annotations

from typing import Annotated

import typer


def links(
    json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """List the links between prefill and decode engines that have a name, and their figures.

    Rates are of one GPU's own link in one direction. Measure the real one with `stallfree profile
    --kv-link`, and name the file instead.
    """
    from dataclasses import asdict

    from rich.table import Table

    from tuner.cli.console import print_json, stdout
    from tuner.simulator.links import LINKS

    if json:
        print_json({n: {**asdict(r), "bytes_per_s": r.bytes_per_s} for n, r in LINKS.items()})
        return
    table = Table(show_lines=True)
    for name in ("link", "GB/s", "line rate", "latency (assumed)", "efficiency from"):
        table.add_column(name, no_wrap=name == "link")
    for name, rates in LINKS.items():
        table.add_row(
            f"{name}\n{rates.title}",
            f"{rates.bytes_per_s / 1e9:.4g}",
            f"{rates.line_bytes_per_s / 1e9:.4g}",
            f"{rates.latency_s * 1e3:g} ms",
            rates.source,
        )
    stdout.print(table)
