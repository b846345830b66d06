"""The front of one run: predicted trials, measured candidates, SLO lines."""

from __future__ import annotations

import streamlit as st

from dashboard import data, figures
from tuner.candidate import Evidence


def page() -> None:
    """Draw the page."""
    st.title("Front")
    found = data.runs()
    if not found:
        st.info(f"No finished run under {data.root()}. Run `stallfree tune STUDY` first.")
        return
    results = found[st.selectbox("Run", list(found), key="front_run")]
    classes = list(results.slo)
    chosen = st.selectbox("SLOs of class", classes) if len(classes) > 1 else classes[0]
    figure = figures.front_figure(
        data.trials(results), data.confirmed(results), results.slo[chosen]
    )
    st.plotly_chart(figure, key="front")
    note = f"Stars are {results.evidence.note}; the dotted line leads to the prediction."
    if results.evidence is Evidence.PREDICTED:
        note = f"All is predicted: {results.evidence.note}."
    st.caption(note)
