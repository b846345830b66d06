"""What a session looks at: a run, a point of it, and points to compare with.

All three are in the URL, so that a link opens the same view elsewhere, and in the session, because
Streamlit drops the URL's parameters when the page changes.

    ?run=NAME      folder of the run
    &point=17      number of a trial, or recommended, knee or best (`tuner.export.from_results`)
    &with=3,8      numbers of further trials, to compare with
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from tuner.export.from_results import RECOMMENDED

RUN, POINT, WITH = "run", "point", "with"
MOST_COMPARED = 4


def remember() -> None:
    """Bring URL and session together, the URL first. Call once, at the start of every page."""
    for key in (RUN, POINT, WITH):
        if key in st.query_params:
            st.session_state[f"seen-{key}"] = st.query_params[key]
        elif f"seen-{key}" in st.session_state:
            st.query_params[key] = st.session_state[f"seen-{key}"]


def _get(key: str) -> str | None:
    value = st.session_state.get(f"seen-{key}")
    return None if value is None else str(value)


def _put(key: str, value: str | None) -> None:
    if value is None:
        st.session_state.pop(f"seen-{key}", None)
        st.query_params.pop(key, None)
        return
    st.session_state[f"seen-{key}"] = value
    st.query_params[key] = value


def run_name() -> str | None:
    """Name of the run that is looked at; it may not exist."""
    return _get(RUN)


def look_at(name: str) -> None:
    """Look at another run, from its recommended point."""
    if run_name() not in (None, name):
        _put(POINT, None)
        _put(WITH, None)
    _put(RUN, name)


def point() -> str:
    """The point that is looked at: recommended, knee, best or the number of a trial, unchecked."""
    return _get(POINT) or RECOMMENDED


def choose(point: str | int) -> None:
    """Look at another point of the run."""
    _put(POINT, str(point))


def compared() -> list[int]:
    """Numbers of the trials to compare with; they may not exist."""
    words = (_get(WITH) or "").split(",")
    return [int(word) for word in words if word.isdecimal() and len(word) < 10][:MOST_COMPARED]


def compare_with(numbers: Sequence[int]) -> None:
    """Compare with these trials, at most `MOST_COMPARED`."""
    distinct = list(dict.fromkeys(numbers))[:MOST_COMPARED]
    _put(WITH, ",".join(str(number) for number in distinct) if distinct else None)
