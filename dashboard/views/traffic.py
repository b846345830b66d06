"""The traffic of a run: what the trace doctor says, lengths, rate, burstiness, and its drift."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from dashboard import data, parts
from dashboard.derive.traffic_shape import traffic_shape
from dashboard.figures import style
from dashboard.figures import traffic as figures
from dashboard.markdown import plain
from dashboard.views import traffic_drift
from dashboard.words import traffic_words
from profiler.errors import StallfreeError
from profiler.traffic.trace import Trace


def page() -> None:
    """Draw the page."""
    st.title("Traffic")
    run = parts.chosen_run()
    if not run.folder.trace.exists() and not run.has_results:
        parts.say_state(run)
        st.stop()
    trace = run.trace
    shape = _shape(run.folder.trace, run.folder.trace.stat().st_mtime_ns, trace)
    source = source_of(run, shape)
    parts.answer(traffic_words.headline(shape))
    for text in shape["diagnosis"]["artefacts"]:
        st.warning(plain(f"Artefact of the recording: {text}."))
    if not shape["diagnosis"]["artefacts"]:
        st.caption("The trace doctor sees no artefact of the recording: no coarse clock, no cut.")
    _rate(run.name, shape, source)
    _lengths(run.name, shape, source)
    _arrivals(shape, source)
    st.subheader("What prompts share")
    st.markdown(traffic_words.sharing_sentence(shape))
    if images := traffic_words.images_sentence(shape):
        st.markdown(images)
    _reading(run, shape)
    traffic_drift.section(run, source)


@st.cache_data(max_entries=16, show_spinner=False)
def _shape(path: Path, changed: int, _trace: Trace) -> dict[str, Any]:
    del path, changed
    return traffic_shape(_trace)


def source_of(run: data.Run, shape: dict[str, Any]) -> str:
    """The line below the figures; without results the trace alone."""
    if run.has_results:
        return style.source_of(run.results)
    return f"run {run.name} · trace {shape['diagnosis']['figures']['digest'][:12]}"


def _rate(name: str, shape: dict[str, Any], source: str) -> None:
    st.subheader("Rate and regimes")
    st.markdown(traffic_words.regimes_sentence(shape))
    if shape["rate"]["rate_rps"]:
        figure = figures.rate_figure(shape["rate"], shape["regimes"])
        parts.show_figure(style.finish(figure, source), "traffic-rate")
    st.caption(
        "A regime is a stretch with much the same arrival rate and lengths (change points by "
        "penalised least squares)."
    )
    parts.show_table(traffic_words.regimes_table(shape), "regimes", f"{name}-regimes")


def _lengths(name: str, shape: dict[str, Any], source: str) -> None:
    st.subheader("Lengths")
    figure = figures.lengths_figure(shape["histograms"])
    parts.show_figure(style.finish(figure, source, height=560), "traffic-lengths")
    parts.show_table(traffic_words.lengths_table(shape), "lengths", f"{name}-lengths")
    st.markdown("**Prompts against outputs**: how many requests have which two lengths.")
    joint = style.finish(figures.joint_figure(shape["joint"]), source)
    parts.show_figure(joint, "traffic-joint")


def _arrivals(shape: dict[str, Any], source: str) -> None:
    st.subheader("Burstiness")
    st.markdown(traffic_words.burst_sentence(shape))
    if shape["burstiness"] is None:
        return
    figure = figures.burstiness_figure(shape["burstiness"])
    parts.show_figure(style.finish(figure, source), "traffic-bursts")
    st.caption(
        "Arrivals counted in windows of a length: their variance over their mean, 1 for a Poisson "
        "process however long the windows are. Above the grey band: bursts in short windows, a "
        "rate that changes in long ones."
    )


def _reading(run: data.Run, shape: dict[str, Any]) -> None:
    """What happened between the file and the trace."""
    st.subheader("How it was read")
    try:
        report, study = traffic_words.kept_report(run.folder), run.study
    except StallfreeError as error:
        st.error(plain(str(error)))
        return
    if report is None:
        source = shape["diagnosis"]["figures"]["source"]
        st.info(plain(traffic_words.without_report(source)))
    else:
        parts.show_table(traffic_words.reading_table(report), "reading", f"{run.name}-reading")
    if text := traffic_words.taken(study.traffic):
        st.caption(text)
