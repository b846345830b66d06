"""Deployment targets by name."""

from __future__ import annotations

from collections.abc import Callable

from profiler.errors import StudyError
from tuner.export import vllm
from tuner.export.fleet import not_exported
from tuner.results import Results

Render = Callable[[Results], dict[str, str]]

TARGETS: dict[str, Render] = {"vllm": vllm.render}


def render(results: Results, target: str) -> dict[str, str]:
    """The bundle for `target`: file name -> text.

    Raises `StudyError` for an unknown target, and for a fleet that `target` has no files for.
    """
    if target not in TARGETS:
        raise StudyError(f"unknown export target {target!r}; known: {', '.join(sorted(TARGETS))}")
    if refusal := not_exported(results, target):
        raise StudyError(refusal)
    return TARGETS[target](results)
