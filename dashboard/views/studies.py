"""All runs, and the figures of one."""

from __future__ import annotations

import streamlit as st

from dashboard import parts, tables


def page() -> None:
    """Draw the page."""
    st.title("Studies")
    _, results = parts.finished_run()
    parts.show_table(tables.confirmed(results), "confirmed", f"{results.study}-confirmed")
