"""Export."""

from __future__ import annotations

import streamlit as st


def page() -> None:
    """The page."""
    st.title("Export")
