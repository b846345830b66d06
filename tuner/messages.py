"""Validation errors of pydantic as one line: the key, the rule, the value, the way out."""

from __future__ import annotations

import difflib
from typing import get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails


def one_line(error: ErrorDetails, model: type[BaseModel]) -> str:
    """Key path, rule, value and way out of one error of validating `model`."""
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        *parents, key = error["loc"]
        known = _known_keys([str(p) for p in parents], model)
        near = difflib.get_close_matches(str(key), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
        return f"unknown key {where}; {hint}"
    if error["type"] == "missing":
        return f"{where} is missing; add it"
    if error["type"] == "value_error":
        text = str(error["msg"]).removeprefix("Value error, ")
        return f"{where}: {text}" if where else text
    return f"{where}: {error['msg'][0].lower()}{error['msg'][1:]}, got {error['input']!r}"


def _known_keys(parents: list[str], model: type[BaseModel]) -> list[str]:
    """The keys that the section at `parents` accepts."""
    section = model
    for part in parents:
        info = next(
            (f for name, f in section.model_fields.items() if part in (name, f.alias)), None
        )
        if info is None:  # the name of a dictionary entry, whose section is already known
            continue
        inner = info.annotation
        candidates = [inner, *get_args(inner)]
        section = next(
            (c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), section
        )
    return [f.alias or name for name, f in section.model_fields.items()]
