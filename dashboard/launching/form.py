"""The form of a new study. What it makes is checked like any study file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st
import yaml

from dashboard.launching.admission import SHIPPED_MODELS, require_plain
from dashboard.launching.draft import USUAL, Draft, searchable, usual_range
from profiler.engines import ENGINES
from profiler.errors import StudyError
from profiler.traffic.published import published_names

_PUBLISHED = "like "
_USUAL_TRAFFIC = f"{_PUBLISHED}azure-conv-2023"


def show(traces: Sequence[str]) -> Callable[[], str] | None:
    """Draw it; when its button was pressed, what makes the study's text (raises `StudyError`).

    `traces` are recorded ones in the storage folder, relative to it.
    """
    with st.form("new-study", border=False):
        name = st.text_input("Name", help="Letters, digits and . _ -; the run folder is called so.")
        traffic = _traffic(traces)
        engine = _engine()
        profile = _profile()
        slo = _slo()
        trials = int(st.number_input("Configurations to search", min_value=1, value=100))
        space = _space()
        pressed = st.form_submit_button("Queue", type="primary")
    if not pressed:
        return None
    return lambda: Draft(name, traffic, engine, profile, slo, trials, _ranges(space)).text()


def _traffic(traces: Sequence[str]) -> dict[str, Any]:
    choices = [f"{_PUBLISHED}{name}" for name in published_names()] + list(traces)
    source = st.selectbox(
        "Traffic",
        choices,
        index=choices.index(_USUAL_TRAFFIC),
        help="Made up from published statistics (like ...), or a trace of this storage folder.",
    )
    left, right = st.columns(2)
    rate = left.number_input(
        "Rate, requests/s",
        min_value=0.0,
        value=None,
        help="Mean arrival rate; empty: as recorded. One engine gets its share of the traffic.",
    )
    seconds = right.number_input("Duration, s", min_value=0.0, value=120.0)
    prompt = left.number_input("Longest prompt, tokens", min_value=1, value=None)
    output = right.number_input("Longest output, tokens", min_value=1, value=None)
    kind = "like" if source.startswith(_PUBLISHED) else "path"
    return {
        kind: source.removeprefix(_PUBLISHED),
        "rate_rps": rate or None,
        "duration_s": seconds or None,
        "max_prompt_tokens": prompt,
        "max_output_tokens": output,
    }


def _engine() -> dict[str, Any]:
    left, right = st.columns(2)
    name = left.selectbox("Engine", list(ENGINES))
    shipped = {path.name: str(path) for path in SHIPPED_MODELS.iterdir() if path.is_dir()}
    model = right.text_input(
        "Model",
        help="A model's name, a folder inside the storage folder, or one that comes with "
        f"Stallfree: {', '.join(sorted(shipped))}.",
    )
    random = st.checkbox("Random weights", help="Step times do not depend on the weights' values.")
    return {
        "name": name,
        "model": shipped.get(model, model),
        "load_format": "dummy" if random else None,
    }


def _profile() -> dict[str, Any]:
    left, right = st.columns(2)
    system = left.text_input(
        "Predict on a GPU",
        help="Name of a GPU system of the published measurements, such as h100_sxm: nothing is "
        "measured. Empty: the engine is profiled on the worker's machine.",
    )
    budget = right.number_input("Else profile for, s", min_value=1.0, value=60.0)
    return {"silicon": {"system": system}} if system else {"budget_s": budget}


def _slo() -> dict[str, float | None]:
    left, right = st.columns(2)
    ttft = left.number_input(
        "TTFT p99 at most, ms",
        min_value=0.0,
        value=1000.0,
        help="Time to first token, from a request's intended arrival.",
    )
    itl = right.number_input(
        "ITL p99 at most, ms",
        min_value=0.0,
        value=50.0,
        help="Every gap between consecutive tokens of an answer.",
    )
    pairs = (("ttft_p99_s", ttft), ("itl_p99_s", itl))
    return {name: value / 1e3 if value else None for name, value in pairs}


def _space() -> dict[str, str]:
    """Setting -> its values as typed."""
    st.markdown("**Settings to search**; leave one empty to keep the engine's default")
    columns = st.columns(2)
    return {
        knob.name: columns[index % 2].text_input(
            f"{knob.name}{f', {knob.unit}' if knob.unit else ''}",
            usual_range(knob.name) if knob.name in USUAL else "",
            help=f"{knob.meaning}. For example {usual_range(knob.name)}",
        )
        for index, knob in enumerate(searchable())
    }


def _ranges(typed: dict[str, str]) -> dict[str, Any]:
    """What was typed, read. Raises `StudyError`."""
    found = {}
    for name, text in typed.items():
        if not text.strip():
            continue
        require_plain(text)
        try:
            found[name] = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise StudyError(
                f"search.space.{name}: {text[:80]!r} is no range; such as {usual_range(name)}"
            ) from error
    return found
