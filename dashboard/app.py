"""Navigation only: `streamlit run dashboard/app.py -- FOLDER`."""

from __future__ import annotations

import streamlit as st

from dashboard.views import front, studies

st.set_page_config(page_title="Stallfree", layout="wide")
st.navigation(
    [
        st.Page(studies.page, title="Studies", url_path="studies", default=True),
        st.Page(front.page, title="Front", url_path="front"),
    ]
).run()
