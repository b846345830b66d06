"""The front of one run: predicted trials, measured candidates, SLO lines."""

from __future__ import annotations

import streamlit as st

from dashboard import parts, tables
from dashboard.figures import style
from dashboard.figures.front import front_figure


def page() -> None:
    """Draw the page."""
    st.title("Front")
    _, results = parts.finished_run()
    limits = next(iter(results.slo.values()))
    figure = front_figure(tables.trials(results), tables.confirmed(results), limits)
    parts.show_figure(style.finish(figure, style.source_of(results)), "front")
