"""The README's generated parts are what the code says; `python -m tests.test_readme` rewrites
them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from profiler.knobs import KNOBS
from profiler.versions import CHECKED, DIFFERENCES
from tuner.cli.app import app
from tuner.simulator.links import links_table

README = Path(__file__).parent.parent / "README.md"


def commands_table() -> str:
    """Every command with the first sentence of its help."""
    rows: list[str] = []

    def visit(command: Any, name: str) -> None:
        if hasattr(command, "list_commands"):
            for child in command.list_commands(None):
                visit(command.get_command(None, child), f"{name} {child}")
        else:
            text = " ".join(command.help.split("\n\n")[0].split())
            rows.append(f"| `{name}` | {text} |")

    visit(typer.main.get_command(app), "stallfree")
    return "\n".join(["| command | |", "|---|---|", *rows])


def knobs_table() -> str:
    """Every engine setting."""
    head = "| setting | unit | range | default | versions | searched | meaning |"
    rows = [head, "|---|---|---|---|---|---|---|"]
    for k in KNOBS.values():
        span = ", ".join(k.choices) or ("true, false" if k.kind == "bool" else f"{k.low}..")
        if k.high is not None:
            span += f"{k.high}"
        searched = "yes" if k.searchable else ""
        cells = (f"`{k.name}`", k.unit, span, k.default, k.versions, searched, k.meaning)
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def versions_table() -> str:
    """Checked versions and what others do otherwise."""
    rows = [f"Checked: {', '.join(CHECKED)}.", "", "| versions | setting | what | otherwise |"]
    rows.append("|---|---|---|---|")
    for d in DIFFERENCES:
        rows.append(f"| {d.where} | `{d.knob}` | {d.kind} | {d.otherwise} |")
    return "\n".join(rows)


PARTS = {
    "commands": commands_table,
    "knobs": knobs_table,
    "links": links_table,
    "versions": versions_table,
}


def generated(name: str) -> str:
    return f"<!-- {name} -->\n{PARTS[name]()}\n<!-- /{name} -->"


@pytest.mark.parametrize("name", PARTS)
def test_generated_part_is_current(name: str) -> None:
    assert generated(name) in README.read_text(encoding="utf-8"), (
        f"the {name} table of README.md is out of date; run python -m tests.test_readme"
    )


if __name__ == "__main__":
    content = README.read_text(encoding="utf-8")
    for part in PARTS:
        pattern = re.compile(f"<!-- {part} -->.*<!-- /{part} -->", re.DOTALL)
        content = pattern.sub(lambda _, part=part: generated(part), content)
    README.write_text(content, encoding="utf-8")
