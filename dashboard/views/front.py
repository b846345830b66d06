"""The front of one run: predicted trials, measured candidates, SLO lines, and the chosen point."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from dashboard import parts, session, tables
from dashboard.figures import style
from dashboard.figures.front import framed, front_figure, num_drawn
from dashboard.figures.front_view import Marks, View
from dashboard.figures.measures import GOODPUT, GPUS, ITL, PER_GPU, TTFT, Measure, measures_of
from dashboard.views import all_trials, live_front, point_panel
from dashboard.words import point_tables
from tuner.results import Results

_TURN = "front-turn"
"""counts choices made elsewhere than in the figure, which then forgets its own selection"""
_NAMED = ("recommended", "knee", "best")
_HELP = (
    "Recommended is what the run recommends, best has the most goodput on the front (of fleets per "
    "GPU), knee is nearest to having the best of everything. Or type the number of any trial."
)
_CAPTION = (
    "Each mark is a simulated configuration. Open marks meet the SLOs in the recorded traffic but "
    "in less than 75 % of the stretches resampled from it. The line joins the best trade-offs of "
    "the two axes among what meets the SLOs; the front itself also counts the third objective. "
    "Click a mark to see what it is."
)


def page() -> None:
    """Draw the page."""
    st.title("Front")
    run = parts.chosen_run()
    if not run.has_results:
        live_front.show(run)
        return
    results = run.results
    answer, more = point_tables.lead(results)
    parts.answer(answer)
    st.markdown(more)
    if not results.front:
        st.warning("No configuration could be predicted, so there is no front.")
        all_trials.show_refused(run)
        return
    trials, pick = run.trials, parts.chosen_point(results)
    number = tables.number_at(results, session.point(), pick.candidate)
    _say_front(results, trials)
    _show_front(results, trials, number)
    _choose(results, trials)
    point_panel.show(run, pick, number)
    all_trials.show(run)


def _say_front(results: Results, trials: pd.DataFrame) -> None:
    """What is unusual about this front."""
    kinds = trials["kind"].value_counts()
    if not any(point["feasible"] for point in results.front):
        st.warning(
            "No trial is predicted to meet the SLOs; the front shows the best trade-offs among "
            "those that miss them."
        )
    elif kinds.get(tables.FRONT, 0) == 1:
        st.info("One configuration is best in everything, so the front is a single point.")


def _show_front(results: Results, trials: pd.DataFrame, number: int | None) -> None:
    view = _view(results, trials)
    figure = front_figure(trials, tables.pairs(results), view, _marks(results, number))
    key = f"front-figure-{st.session_state.get(_TURN, 0)}"
    st.plotly_chart(
        framed(figure, style.source_of(results)),
        width="stretch",
        key=key,
        on_select=lambda: _clicked(key),
        selection_mode="points",
        config={"displaylogo": False},
        alt="Pareto front; the list of points below it does the same as a click",
    )
    st.caption(_CAPTION + _counts(results, trials) + _thinned(figure, trials, view))


def _counts(results: Results, trials: pd.DataFrame) -> str:
    kinds = trials["kind"].value_counts()
    texts = [f"{kinds.get(kind, 0):,} {name}" for kind, name in _KINDS]
    if results.infeasible_trials:
        texts.append(f"{results.infeasible_trials:,} refused and not drawn")
    cut = ""
    if results.fleet is not None and results.fleet["searched_requests"] < results.fleet["requests"]:
        cut = (
            f" The search simulated the busiest {results.fleet['searched_requests']:,} of "
            f"{results.fleet['requests']:,} requests; the sentence on top is about all of them."
        )
    return f" {results.trials:,} trials: {', '.join(texts)}.{cut}"


def _thinned(figure: go.Figure, trials: pd.DataFrame, view: View) -> str:
    """What is not drawn."""
    missing = int((view.x.of(trials).isna() | view.y.of(trials).isna()).sum())
    text = f" {missing:,} lack one of the two figures." if missing else ""
    drawn = num_drawn(figure)
    if drawn == len(trials):
        return text
    beyond = "" if view.everything else ", or lie outside the axes"
    return f"{text} Drawn are {drawn:,}: the others cannot be told from one that is drawn{beyond}."


_KINDS = (
    (tables.FRONT, "on the front"),
    (tables.MEETS, "beside it"),
    (tables.MISSES, "missing an SLO"),
)


def _marks(results: Results, number: int | None) -> Marks:
    point = next((p for p in results.front if p["number"] == number), None)
    return Marks(
        chosen=number,
        default=tables.number_of(results, results.default),
        recommended=tables.number_of(results, results.recommended),
        compared=session.compared(),
        intervals={} if point is None else point["intervals"],
    )


def _view(results: Results, trials: pd.DataFrame) -> View:
    """Axes as they are chosen; they stay while the session lasts."""
    measures = measures_of(trials)
    shade = PER_GPU if PER_GPU in measures else GOODPUT
    if (results.fleet or {}).get("fewest"):
        shade = GPUS
    row = st.container(horizontal=True, vertical_alignment="bottom")
    with row.popover("Axes", icon=":material/tune:"):
        x = _measure("Across", measures, measures[0])
        y = _measure("Upwards", measures, measures[1])
        third = _measure("Colour and size", [None, *measures], shade)
        logs = [_scale(axis, measure) for axis, measure in (("across", x), ("upwards", y))]
    everything = row.toggle(
        "Show all trials",
        key="front-everything",
        help="Axes over every trial, also those that miss the SLOs by far.",
    )
    assert x is not None and y is not None  # only the third may be none
    return View(x, y, third, logs[0], logs[1], everything, results.slo)


def _measure(label: str, measures: list[Any], default: Measure) -> Any:
    """One of `measures`, the one that was last chosen; an item of the list may be None."""
    key = f"front-kept-{label}"
    kept = st.session_state.get(key, default)
    index = measures.index(kept if kept in measures else default)
    chosen = st.selectbox(
        label,
        measures,
        index=index,
        format_func=lambda m: "nothing" if m is None else m.label,
        key=f"front-{label}",
    )
    st.session_state[key] = chosen
    return chosen


def _scale(axis: str, measure: Any) -> bool | None:
    """Whether an axis is logarithmic; None leaves it to the values."""
    chosen = st.segmented_control(
        f"Scale {axis}",
        ["by the values", "linear", "logarithmic"],
        default="by the values",
        key=f"front-scale-{axis}-{measure.column}",
    )
    return {"linear": False, "logarithmic": True}.get(str(chosen))


def _clicked(key: str) -> None:
    """The session looks at the point that was clicked; a click that takes a selection back leaves
    it. The URL is what counts: the figure's own selection is never read outside this call."""
    for point in st.session_state[key]["selection"]["points"]:
        number = (point.get("customdata") or [None])[0]
        if number is not None and int(number) >= 0:
            session.choose(int(number))
            return


def choose(point: str | int) -> None:
    """Look at a point that was chosen elsewhere than in the figure."""
    st.session_state[_TURN] = st.session_state.get(_TURN, 0) + 1
    session.choose(point)


def _choose(results: Results, trials: pd.DataFrame) -> None:
    """A list of the points, for the keyboard and for narrow screens."""
    front = trials[trials["kind"] == tables.FRONT].sort_values("itl_p99_s")
    columns = [front["number"], *(front[m.column] for m in (ITL, TTFT, GOODPUT))]
    texts = {
        str(number): f"{number}: {ITL.title} {ITL.words(itl)}, {TTFT.title} {TTFT.words(ttft)}, "
        f"{GOODPUT.words(goodput)}"
        for number, itl, ttft, goodput in zip(*columns, strict=True)
    }
    current = session.point()
    options = list(dict.fromkeys([*_NAMED, *texts, current]))
    if "front-point" not in st.session_state or st.session_state["front-point"] != current:
        st.session_state["front-point"] = current
    st.selectbox(
        "Point",
        options,
        key="front-point",
        format_func=lambda name: texts.get(name, _titled(name)),
        accept_new_options=True,
        on_change=lambda: choose(st.session_state["front-point"] or "recommended"),
        help=_HELP,
    )


def _titled(name: str) -> str:
    return f"trial {name}" if name.isdecimal() else name
