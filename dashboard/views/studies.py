"""All finished runs, and the figures of one."""

from __future__ import annotations

import streamlit as st

from dashboard import data
from tuner.candidate import Evidence
from tuner.results import Verdict


def page() -> None:
    """Draw the page."""
    st.title("Studies")
    found = data.runs()
    if not found:
        st.info(f"No finished run under {data.root()}. Run `stallfree tune STUDY` first.")
        return
    st.dataframe(data.overview(found), hide_index=True)
    name = st.selectbox("Run", list(found), key="run")
    results = found[name]
    if results.verdict is Verdict.PREDICTED:
        st.info(f"{results.recommended.label} is best by prediction; {results.evidence.note}.")
    elif results.meets_slo:
        st.success(f"{results.recommended.label} meets the SLOs, {results.evidence}.")
    else:
        missed = ", ".join(f"{k} by {100 * v:.0f} %" for k, v in results.misses.items())
        st.warning(
            f"Nothing met the SLOs. Closest: {results.recommended.label}; it misses {missed}."
        )
    confirmed = "" if results.evidence is Evidence.PREDICTED else f" and {results.evidence}"
    st.subheader(f"Predicted{confirmed}")
    st.caption(results.evidence.note)
    st.dataframe(data.confirmed(results), hide_index=True)
    st.subheader("Recommended settings")
    st.json(results.recommended.settings)
    st.subheader("Where this came from")
    st.json(results.provenance, expanded=False)
