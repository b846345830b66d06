"""Navigation only: the run that is looked at, and the pages."""

from __future__ import annotations

import streamlit as st

from dashboard import data, parts, session
from dashboard.markdown import plain
from dashboard.options import current
from dashboard.views import export, front, latency, model, pools, studies, traffic, why
from profiler.errors import StallfreeError

st.set_page_config(page_title="Stallfree", page_icon="\u23f1\ufe0f", layout="wide")
session.remember()
parts.begin()
runs = data.runs()
if names := list(runs):
    known, newest = session.run_name(), data.newest(runs)
    if known is not None and known not in names:
        st.warning(plain(f"No run {known!r} under {current().root}; shown is {newest}."))
    session.look_at(known if known in names else newest)
    index = names.index(str(session.run_name()))
    chosen = st.sidebar.selectbox("Study", names, index=index)
    session.look_at(chosen)
page = st.navigation(
    [
        st.Page(studies.page, title="Studies", url_path="studies", icon=":material/list:"),
        st.Page(front.page, title="Front", url_path="front", icon=":material/scatter_plot:"),
        st.Page(latency.page, title="Latency", url_path="latency", icon=":material/timer:"),
        st.Page(why.page, title="Why", url_path="why", icon=":material/help:"),
        st.Page(pools.page, title="Pools", url_path="pools", icon=":material/hub:"),
        st.Page(model.page, title="Model", url_path="model", icon=":material/model_training:"),
        st.Page(traffic.page, title="Traffic", url_path="traffic", icon=":material/traffic:"),
        st.Page(export.page, title="Export", url_path="export", icon=":material/deployed_code:"),
    ]
)
try:
    page.run()
except StallfreeError as error:  # one line, with the way out
    st.error(plain(str(error)))
