"""All runs of the storage folder, what the chosen one found, and launching."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import data, parts, session, tables
from dashboard.launching import launch
from dashboard.markdown import plain
from dashboard.options import current
from dashboard.studies_table import is_live, table
from dashboard.views import compare
from dashboard.words.found import provenance, readable, sentence, settings_against_default
from tuner.candidate import Evidence
from tuner.results import Results
from tuner.search.run_state import Phase

_EVERY_S = 1.5
_KEY, _SHOWN, _CLICKED = "all-studies", "all-studies-shown", "all-studies-clicked"


def page() -> None:
    """Draw the page."""
    st.title("Studies")
    runs = data.runs()
    name = session.run_name()
    run = runs.get(name) if name is not None else None
    if run is None:
        st.info(f"No study under {current().root} yet. Run `stallfree tune STUDY` first.")
        launch.show(None)
        return
    results = run.results if run.has_results else None
    if results is not None:
        _say_found(run, results)
    seen = _seen(run.name)
    st.fragment(_all_studies, run_every=_EVERY_S if seen[1] else None)(run.name, seen)
    launch.show(run)
    if results is not None:
        _show_results(run, results)


def _say_found(run: data.Run, results: Results) -> None:
    """In one sentence what the run found."""
    text = f"**{run.name}:** {sentence(results)}"
    if results.evidence is Evidence.PREDICTED:
        st.info(text, icon=":material/insights:")
    elif results.meets_slo:
        st.success(text, icon=":material/check_circle:")
    else:
        st.warning(text, icon=":material/error:")


def _say_state(run: data.Run) -> None:
    """What a run is doing that goes on or has no results."""
    state = run.state
    if state.phase is Phase.RUNNING:
        share = f" ({state.done:,} of {state.total:,})" if state.total else ""
        st.info(plain(f"{run.name} is running: {state.stage}{share}."))
    elif is_live(run) or not run.has_results:
        parts.say_state(run)


def _seen(name: str) -> tuple[str, bool]:
    """The phase of the run called `name`, and whether any run may change by itself."""
    runs = data.runs()
    phase = str(runs[name].state.phase) if name in runs else ""
    return phase, any(is_live(run) for run in runs.values())


def _all_studies(chosen: str, before: tuple[str, bool]) -> None:
    """What the chosen run is doing, and the table; they look again by themselves while a run goes
    on. A click looks at that run."""
    known = data.runs()
    if st.session_state.pop(_CLICKED, False) or chosen not in known or _seen(chosen) != before:
        st.rerun()
    _say_state(known[chosen])
    runs = known.values()
    frame = table(runs)
    st.session_state[_SHOWN] = list(frame["study"])
    st.dataframe(
        frame,
        hide_index=True,
        width="stretch",
        key=_KEY,
        on_select=_look_at_clicked,
        selection_mode="single-row",
        column_config={
            "progress": st.column_config.ProgressColumn(format="percent", width="small"),
            "study": st.column_config.TextColumn(pinned=True),
        },
    )
    st.caption(
        "Click a row to look at that study. Figures: the recommended configuration's, with the "
        "engine default's in brackets; goodput counts the requests that meet every SLO."
    )


def _look_at_clicked() -> None:
    """Look at the run whose row was selected."""
    rows = st.session_state[_KEY].selection.rows
    shown = st.session_state.get(_SHOWN, [])
    if rows and rows[0] < len(shown):
        session.look_at(shown[rows[0]])
        st.session_state[_CLICKED] = True


def _show_results(run: data.Run, results: Results) -> None:
    st.subheader("Figures")
    st.caption(_about_figures(results))
    frame = readable(tables.confirmed(results))
    parts.show_table(frame, "confirmed", f"{results.study}-confirmed")
    st.subheader("Settings against the engine default")
    _table_or(settings_against_default(results), "settings", results.study, "No setting differs.")
    compare.show(run, results)
    st.subheader("Provenance")
    parts.show_table(provenance(results), "provenance", f"{results.study}-provenance")


def _about_figures(results: Results) -> str:
    seen = results.evidence.value
    text = (
        "predicted: simulated, with 90 % intervals and the chance to meet the SLOs over arrival "
        "windows of the traffic"
    )
    if results.evidence is Evidence.REHEARSED:
        text += f"; {seen}: {results.evidence.note}"
    if results.evidence is Evidence.MEASURED:
        text += (
            "; measured: seen by a client of the real engine; at profile speed: scaled by the "
            "machine's speed during the replay"
        )
    return f"{text}."


def _table_or(frame: pd.DataFrame, key: str, study: str, otherwise: str) -> None:
    if len(frame):
        parts.show_table(frame, key, f"{study}-{key}")
    else:
        st.markdown(otherwise)
