"""A small checker of rule tables: field names, types, what must be there, and fixed values.

The tables in `rules/` were drawn from the public sources that each names; they hold rules, no text.
An object with `fields` is closed: a name that it does not list would be ignored by the target in
silence, or refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RULES = Path(__file__).parent / "rules"
_TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "null": type(None),
}


def load_rules(name: str) -> dict[str, Any]:
    """The rules of the table `name`."""
    table = json.loads((RULES / f"{name}.json").read_text())
    assert set(table) == {"source", "version", "path", "rules"}
    rules: dict[str, Any] = table["rules"]
    return rules


def problems(rule: dict[str, Any], value: Any, where: str = "") -> Iterator[str]:
    """What breaks `rule` in `value`, one line each."""
    if "type" in rule and not _has_type(rule["type"], value):
        yield f"{where}: {rule['type']} expected, got {value!r}"
        return
    if "enum" in rule and value not in rule["enum"]:
        yield f"{where}: one of {rule['enum']} expected, got {value!r}"
    if "pattern" in rule and not re.search(rule["pattern"], value):
        yield f"{where}: {value!r} does not match {rule['pattern']}"
    if isinstance(value, dict):
        yield from _of_object(rule, value, where)
    if isinstance(value, list) and "items" in rule:
        for i, item in enumerate(value):
            yield from problems(rule["items"], item, f"{where}[{i}]")


def _of_object(rule: dict[str, Any], value: dict[str, Any], where: str) -> Iterator[str]:
    for name in rule.get("required", []):
        if name not in value:
            yield f"{where}: {name} is missing"
    for name, child in value.items():
        if "values" in rule:
            yield from problems(rule["values"], child, f"{where}.{name}")
        elif "fields" in rule and name not in rule["fields"]:
            yield f"{where}: there is no field {name}"
        elif "fields" in rule:
            yield from problems(rule["fields"][name], child, f"{where}.{name}")


def _has_type(names: str | list[str], value: Any) -> bool:
    wanted = [names] if isinstance(names, str) else names
    if isinstance(value, bool):
        return "boolean" in wanted
    return any(isinstance(value, _TYPES[name]) for name in wanted)
