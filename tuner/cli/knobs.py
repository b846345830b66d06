"""`stallfree knobs`: the settings Stallfree knows."""

from __future__ import annotations

from typing import Annotated

import typer


def knobs(
    json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """List every engine setting: unit, range, default, meaning, and whether it can be searched."""
    from dataclasses import asdict

    from rich.table import Table

    from profiler.knobs import KNOBS
    from tuner.cli.console import print_json, stdout

    if json:
        print_json({name: asdict(knob) for name, knob in KNOBS.items()})
        return
    table = Table(show_lines=True)
    table.add_column("setting (* searched)", no_wrap=True)
    for name in ("range", "default", "meaning"):
        table.add_column(name)
    for knob in KNOBS.values():
        span = ", ".join(knob.choices) or ("true, false" if knob.kind == "bool" else "")
        if not span:
            span = f"{knob.low} .. {'' if knob.high is None else knob.high}"
        name = f"{knob.name} *" if knob.searchable else knob.name
        table.add_row(name, f"{span} {knob.unit}", knob.default, knob.meaning)
    stdout.print(table)
