"""The chosen point of the front: what it is, what it buys, how sure that is, where to go."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import data, parts, session, tables
from dashboard.derive.differences import differences
from dashboard.derive.neighbours import nearest
from dashboard.figures import style
from dashboard.figures.differences import differences_figure, has_bars, height
from dashboard.figures.measures import GOODPUT, ITL, TTFT
from dashboard.words import point_tables
from dashboard.words.found import misses
from dashboard.work import Job
from tuner.export.from_results import Pick
from tuner.intervals import ALL
from tuner.results import Results

_FIGURES_HELP = {
    TTFT: "Time to the first token, from the intended arrival; 99 of 100 requests wait no longer.",
    ITL: "Inter-token latency: every gap between two tokens; 99 of 100 gaps are no longer.",
    GOODPUT: "Requests per second that meet every SLO of their class.",
}
_CHANCE_HELP = (
    "Share of the stretches of traffic, resampled from the recorded one, in which every SLO is met."
)


def show(run: data.Run, pick: Pick, number: int | None) -> None:
    """The panel of `pick`, which is trial `number`, or none of the search's predicted ones."""
    results = run.results
    st.subheader(point_tables.title(results, pick, number))
    point = next((p for p in results.front if p["number"] == number), None)
    _say_met(pick)
    if point is None:
        st.info("The search has no prediction of this configuration.")
    else:
        _show_figures(results, point)
    _say_all_requests(results, pick)
    _actions(run, number)
    _show_confirmed(results, pick)
    table = point_tables.settings_table(results, pick)
    if table.empty:
        st.write("It does not differ from the engine default.")
        return
    st.markdown("**What differs from the engine default**")
    st.dataframe(table, hide_index=True, width="stretch", key="front-settings")
    if point is not None:
        _show_differences(run, point)
        _show_neighbours(run.trials, point["number"])


def _say_met(pick: Pick) -> None:
    if not pick.meets_slo:
        st.warning(f"Misses {misses(pick.misses)} ({pick.evidence}).")
    if pick.candidate.failure is not None:
        st.warning(f"Was not confirmed: {pick.candidate.failure}")
    for sentence in pick.candidate.not_sampled:
        st.caption(f"Not sampled by the latency model: {sentence}")


def _show_figures(results: Results, point: dict[str, Any]) -> None:
    """Predicted figures beside the engine default's, then the table with intervals."""
    default = tables.number_of(results, results.default)
    other = next((p for p in results.front if p["number"] == default), None)
    table = point_tables.figures_table(point, other)
    row = st.container(horizontal=True)
    for measure, change_ in zip((TTFT, ITL, GOODPUT), table["change"], strict=True):
        row.metric(
            f"{measure.title}, predicted",
            measure.words(point[measure.column]),
            None if change_ in ("-", "0 %") else f"{change_} against the default",
            delta_color="inverse" if measure.less_is_better else "normal",
            help=_FIGURES_HELP[measure],
        )
    chance = point["chance"].get(ALL)
    if chance is not None:
        row.metric("Chance to meet the SLOs", f"{100 * chance:.0f} %", help=_CHANCE_HELP)
    st.dataframe(table, hide_index=True, width="stretch", key="front-figures")
    each = {k: v for k, v in point["chance"].items() if k != ALL and v < 1}
    if each:
        texts = ", ".join(f"{name} {100 * share:.0f} %" for name, share in each.items())
        st.caption(f"Chance to meet each limit that is not always met: {texts}.")


def _show_confirmed(results: Results, pick: Pick) -> None:
    table = point_tables.confirmed_table(pick.candidate, pick.evidence)
    if table.empty:
        st.caption("This configuration was only predicted, never run on an engine.")
        return
    st.markdown(f"**Predicted and {pick.evidence}, of the requests that were replayed**")
    st.dataframe(table, hide_index=True, width="stretch", key="front-confirmed")
    st.caption(
        f"{pick.evidence.note}. Error: predicted against {pick.evidence}; +10 % was predicted a "
        "tenth too high. At profile speed: times scaled by how fast the machine was during the "
        "replay, compared with when it was profiled."
    )


def _say_all_requests(results: Results, pick: Pick) -> None:
    """Of a fleet that was scored on all traffic, while the search simulated a part of it."""
    figures = pick.candidate.predicted or {}
    if results.fleet is None or "num_requests" not in figures:
        return
    texts = [f"{m.title} {m.words(figures[m.column])}" for m in (TTFT, ITL, GOODPUT)]
    share = figures["chance"].get(ALL)
    texts += [] if share is None else [f"chance to meet the SLOs {100 * share:.0f} %"]
    st.write(f"Predicted on all {figures['num_requests']:,} requests: {', '.join(texts)}.")


def _actions(run: data.Run, number: int | None) -> None:
    """Compare and export; the point goes along, because the session keeps it."""
    row = st.container(horizontal=True)
    compared = session.compared()
    if number is not None and number not in compared:
        row.button(
            "Compare",
            icon=":material/compare:",
            key="front-compare",
            on_click=lambda: session.compare_with([number, *compared]),
            help="Adds it to the points that the Latency page draws beside the chosen one.",
        )
    if compared:
        row.button(
            f"Stop comparing with {', '.join(str(n) for n in compared)}",
            key="front-compare-none",
            on_click=lambda: session.compare_with([]),
        )
    if row.button("Export this point", icon=":material/deployed_code:", key="front-export"):
        from dashboard.views import export

        st.switch_page(st.Page(export.page, title="Export", url_path="export"))


def _show_differences(run: data.Run, point: dict[str, Any]) -> None:
    """Each difference alone, by simulating with and without it."""
    job = Job("What each difference buys", differences, run.folder.path, (point["settings"],))
    found = parts.result_of(job)
    if found is None or not found["rows"]:
        return
    st.markdown("**What each difference buys**")
    if has_bars(found):
        figure = style.finish(
            differences_figure(found), style.source_of(run.results), height=height(found)
        )
        parts.show_figure(figure, "front-differences")
        st.caption(
            "Change of each figure, simulated on the traffic of the search. Striped: the engine "
            "default with this setting alone. Plain: this point, from without the setting to with "
            "it. Where the two differ, settings depend on each other."
        )
    parts.show_table(
        point_tables.differences_table(found), "front-differences-table", "differences"
    )


def _show_neighbours(trials: pd.DataFrame, number: int) -> None:
    """The nearest points of the front, and a button to each."""
    st.markdown("**Nearest on the front**")
    for name, columns in (
        ("figures", list(tables.FIGURES)),
        ("settings", tables.setting_columns(trials)),
    ):
        numbers = nearest(trials, number, columns)
        if not numbers:
            st.caption(f"No other point of the front to compare by {name}.")
            continue
        table = point_tables.neighbours_table(trials, numbers, number)
        st.caption(f"By {name}; changes are from this point to that one.")
        st.dataframe(table, hide_index=True, width="stretch", key=f"front-near-{name}")
        row = st.container(horizontal=True)
        for other in numbers:
            row.button(
                f"Go to {other}", key=f"front-go-{name}-{other}", on_click=_go, args=(other,)
            )


def _go(number: int) -> None:
    from dashboard.views.front import choose  # which shows this panel

    choose(number)
