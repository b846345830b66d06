"""The front of a run that has no results yet, from the trials so far."""

from __future__ import annotations

from datetime import timedelta

import pandas as pd
import streamlit as st

from dashboard import data, live, parts
from dashboard.figures.front import framed, front_figure
from dashboard.figures.front_view import Marks, View
from dashboard.markdown import plain
from dashboard.options import current
from profiler.errors import StallfreeError
from tuner.search.run_state import Phase

_EVERY = timedelta(seconds=3)


def show(run: data.Run) -> None:
    """What the run is doing, and what it has found so far; goes on by itself while it runs."""
    if run.state.phase is Phase.RUNNING:
        st.fragment(_watch, run_every=_EVERY)(run.name)
    else:
        parts.say_state(run)
        _draw(run)


def _watch(name: str) -> None:
    """One look at a running search; the whole page runs again when it has ended."""
    run = data.run_named(name)
    if run.state.phase is not Phase.RUNNING:
        st.rerun()
    share = f", {run.state.done:,} of {run.state.total:,}" if run.state.total else ""
    doing = f"{run.name} is running ({run.state.stage}{share})"
    st.info(plain(f"{doing}; this is what it has found so far."))
    _draw(run)


def _draw(run: data.Run) -> None:
    if not run.folder.database.exists():
        st.caption("The search has not begun.")
        return
    found = live.so_far(run.folder.database, current().patience_s)
    if found is None:
        st.caption("Reading the trials ...")
        return
    refused = f", {found.refused:,} refused" if found.refused else ""
    parts.answer(
        f"{found.finished:,} trials so far: {found.met:,} are predicted to meet the SLOs{refused}."
    )
    if found.trials.empty:
        return
    figure = front_figure(found.trials, pd.DataFrame(), View(limits=_limits(run)), Marks(default=0))
    source = f"run {run.name}, search not finished"
    parts.show_figure(framed(figure, source), "live-front")


def _limits(run: data.Run) -> dict[str, dict[str, float]]:
    """The study's SLOs: those of all requests, and of each class that has its own."""
    try:
        slo = run.study.slo
    except StallfreeError:  # a study whose files are gone; the trials say enough
        return {}
    limits = {"all": slo.default, **slo.classes}
    return {name: given for name, one in limits.items() if (given := _given(one.model_dump()))}


def _given(limits: dict[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in limits.items() if value is not None}
