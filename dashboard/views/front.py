"""The front of one run: predicted trials, measured candidates, SLO lines."""

from __future__ import annotations

import streamlit as st

from dashboard import data, figures


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
    stars = f"Stars are {results.note}; the dotted line leads to the prediction."
    st.caption(results.note.capitalize() + "." if results.seen is None else stars)
