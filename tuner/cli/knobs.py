"""`stallfree knobs`: the settings Stallfree knows."""

from __future__ import annotations

from typing import Annotated

import typer


def knobs(
    json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """List every engine setting: unit, range, default, meaning, versions, whether it is searched.

    What other versions of the engine do otherwise stands below the meaning.
    """
    from dataclasses import asdict

    from rich.table import Table

    from profiler.knobs import KNOBS
    from profiler.versions import differences_of
    from tuner.cli.console import print_json, stdout

    if json:
        print_json(
            {
                name: {**asdict(knob), "differences": [asdict(d) for d in differences_of(name)]}
                for name, knob in KNOBS.items()
            }
        )
        return
    table = Table(show_lines=True)
    table.add_column("setting (* searched)", no_wrap=True)
    for name in ("range", "default", "versions", "meaning"):
        table.add_column(name)
    for knob in KNOBS.values():
        span = ", ".join(knob.choices) or ("true, false" if knob.kind == "bool" else "")
        if not span:
            span = f"{knob.low} .. {'' if knob.high is None else knob.high}"
        name = f"{knob.name} *" if knob.searchable else knob.name
        others = [f"{d.where}: {d.otherwise}" for d in differences_of(knob.name)]
        meaning = "\n".join([knob.meaning, *others])
        table.add_row(name, f"{span} {knob.unit}", knob.default, knob.versions, meaning)
    stdout.print(table)
