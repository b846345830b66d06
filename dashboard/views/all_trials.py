"""What all trials of a search say together: table, parallel coordinates, importance, refusals."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import data, parts, tables
from dashboard.derive.importance import FEWEST_TRIALS, importance
from dashboard.derive.refusals import refusals
from dashboard.figures import style
from dashboard.figures.importance import importance_figure, importance_words
from dashboard.figures.parallel import parallel_figure, shown_settings, thinned
from dashboard.words import point_tables
from dashboard.work import Job
from tuner.fleet_plan import in_words

_TABLE, _PARALLEL = "Table", "Settings and figures in parallel"
_IMPORTANCE, _REFUSED = "Which settings matter", "Refused trials"


def show(run: data.Run) -> None:
    """The part that is chosen; the others cost nothing."""
    st.subheader("All trials")
    names = [_TABLE, _PARALLEL, _IMPORTANCE]
    names += [_REFUSED] if run.results.infeasible_trials else []
    chosen = st.segmented_control("Show", names, default=_TABLE, key="front-more")
    if chosen == _TABLE:
        _show_table(run)
    elif chosen == _PARALLEL:
        _show_parallel(run)
    elif chosen == _IMPORTANCE:
        _show_importance(run)
    elif chosen == _REFUSED:
        show_refused(run)


def _show_table(run: data.Run) -> None:
    trials = run.trials
    front = trials[trials["kind"] == tables.FRONT]
    every = st.toggle("Also those that are not on the front", key="front-every")
    table = point_tables.front_table(trials if every else front)
    parts.show_table(table, "front-table", f"{run.results.study}-trials")


def _show_parallel(run: data.Run) -> None:
    trials = thinned(run.trials)
    if trials.empty:
        st.info("No trial has both latencies.")
        return
    by_kind = st.toggle("Colour by kind instead of goodput", key="front-by-kind")
    figure = parallel_figure(trials, by_kind=by_kind)
    parts.show_figure(
        style.finish(figure, style.source_of(run.results), height=460), "front-parallel"
    )
    settings = len(tables.setting_columns(trials)) - len(shown_settings(trials))
    texts = [
        "One line per trial. Drag along an axis to keep the trials that pass there; drag an axis' "
        "name to move it. Needs some width: turn a telephone."
    ]
    if by_kind:
        texts.append("Grey misses an SLO, blue meets them, orange is on the front.")
    if len(trials) < len(run.trials):
        texts.append(f"{len(trials):,} of {len(run.trials):,} trials: the front and a sample.")
    if settings:
        texts.append(f"{settings} settings that fewer trials have are left out.")
    st.caption(" ".join(texts))


def _show_importance(run: data.Run) -> None:
    if len(run.trials) < FEWEST_TRIALS:
        st.info(
            f"The search has {len(run.trials)} predicted trials; which settings matter can be told "
            f"from {FEWEST_TRIALS} on."
        )
        return
    found = parts.result_of(Job("Which settings matter", importance, run.folder.path))
    if found is None:
        return
    if not any(found["figures"].values()):
        st.info("The figures do not vary over the trials, so no setting matters.")
        return
    st.markdown(f"**{importance_words(found)}**")
    figure = importance_figure(found)
    parts.show_figure(
        style.finish(figure, style.source_of(run.results), height=460), "front-importance"
    )
    st.caption(
        f"A random forest learns each figure from the settings of {found['trials']:,} trials. The "
        "bar is how much of its skill (R² on trials that it did not see) is lost when the values "
        "of one setting are shuffled; whiskers are one standard deviation. Trust it where R² in "
        "the legend is near 1. It speaks of the settings that the search tried, most of them good."
    )


def show_refused(run: data.Run) -> None:
    """Why the engine would refuse settings, or why they could not be predicted."""
    if not run.results.infeasible_trials:
        return
    found = parts.result_of(Job("Reading the refused trials", refusals, run.folder.path))
    if found is None:
        return
    rows = [
        {
            "trials": reason["trials"],
            "reason, of the first": reason["example"],
            "trial": reason["number"],
            "settings": in_words(reason["settings"]),
        }
        for reason in found["reasons"]
    ]
    st.write(f"{run.results.infeasible_trials:,} of {run.results.trials:,} trials were refused.")
    parts.show_table(pd.DataFrame(rows), "front-refused", f"{run.results.study}-refused")
