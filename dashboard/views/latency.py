"""TTFT and ITL of the chosen point: distributions, the engine over time, headroom."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import data, parts, session, work
from dashboard.derive import latency as derived
from dashboard.derive.load import capacity
from dashboard.derive.points import Points, points_of
from dashboard.figures import style
from dashboard.figures.latency import (
    METRICS,
    cumulative_figure,
    over_time_figure,
    tail_figure,
    tall,
)
from dashboard.figures.load import capacity_figure
from dashboard.report import latency as words
from tuner.results import Results

SHARES = {"up to a latency": cumulative_figure, "slower than a latency": tail_figure}
SHARES_HELP = (
    "Up to a latency: the share of all first tokens (TTFT) or of all gaps between two tokens of a "
    "request (ITL) that took at most so long. Slower: the share that took longer, which shows the "
    "tail; where a line is below p99 at the limit, the SLO is met."
)


def page() -> None:
    """Draw the page."""
    st.title("Latency")
    run, results = parts.finished_run()
    chosen = parts.chosen_point(results)
    points = points_of(results, chosen, session.compared())
    jobs = _jobs(run, results, points)
    for job in jobs.values():
        work.start(job)
    parts.answer(words.lead(results, chosen))
    headroom = st.empty()
    class_name = _class_chosen(results)
    share = str(st.radio("Show the share", list(SHARES), horizontal=True, help=SHARES_HELP))
    _distributions(results, jobs["distributions"], class_name, share)
    if "confirmed" in jobs:
        _confirmed(results, jobs["confirmed"], class_name, share)
    _load(results, jobs["load"], headroom)
    if "time" in jobs:
        _over_time(results, jobs["time"])
    else:
        st.caption(
            "Queue, batch and KV use over time are not kept for fleets: the simulation of a fleet "
            "has no record of its steps. Requests of each replica are on the Pools page."
        )


def _jobs(run: data.Run, results: Results, points: Points) -> dict[str, work.Job]:
    """What the page needs that takes longer than a page may."""
    place, two = run.folder.path, dict(list(points.items())[:2])
    jobs = {
        "distributions": work.Job("Distributions", derived.distributions, place, (points,)),
        "load": work.Job("Load curves", capacity, place, (points,)),
    }
    if any(one.replays for one in results.candidates):
        jobs["confirmed"] = work.Job("Replays", derived.confirmed, place, (points,))
    if results.fleet is None:
        jobs["time"] = work.Job("The engine over time", derived.over_time, place, (two,))
    return jobs


def _class_chosen(results: Results) -> str:
    """The class of requests that the distributions are of."""
    if len(results.slo) == 1:
        return derived.ALL
    names = [derived.ALL, *results.slo]
    return str(st.radio("Class of requests", names, horizontal=True))


def _distributions(results: Results, job: work.Job, class_name: str, share: str) -> None:
    st.subheader("Predicted, on all traffic")
    found = parts.result_of(job)
    if found is None:
        return
    for name, one in found["points"].items():
        if "failure" in one:
            st.warning(f"{name} cannot be simulated: {one['failure']}")
    curves = words.of_class(found["points"], class_name)
    if not curves:
        return
    _two(results, found["percents"], curves, (class_name, share, "predicted"))
    lost = {name: one["unanswered"] for name, one in curves.items() if one["unanswered"]}
    if lost:
        texts = ", ".join(f"{name} {count:,}" for name, count in lost.items())
        st.caption(f"Requests without a first token, which no line holds: {texts}.")
    table = words.percentile_table(curves, found["percents"])
    parts.show_table(table, "percentiles", f"{results.study}-percentiles")


def _two(
    results: Results, percents: list[float], curves: dict[str, Any], how: tuple[str, str, str]
) -> None:
    """TTFT and ITL beside each other, where the screen is wide."""
    class_name, share, kind = how
    for metric, place in zip(METRICS, st.columns(2), strict=True):
        limits = words.limits_in(results, metric, class_name)
        figure = SHARES[share](metric, percents, curves, limits)
        with place:
            source = style.source_of(results)
            parts.show_figure(style.finish(figure, source), f"{kind}-{metric}")


def _confirmed(results: Results, job: work.Job, class_name: str, share: str) -> None:
    """What was seen, over what is predicted for the same requests."""
    seen = results.evidence.value
    st.subheader(f"{seen.capitalize()}, over predicted")
    found = parts.result_of(job)
    if found is None:
        return
    if not found["points"]:
        st.info("The run keeps no replays of these points; the recommended one may have some.")
        return
    name = str(st.selectbox("Point", list(found["points"])))
    one = found["points"][name]
    lines = {"predicted": one["lines"]["predicted"], seen: one["lines"]["seen"]}
    if seen == "measured":
        lines["measured, at profile speed"] = one["lines"]["corrected"]
    speeds = " and ".join(f"{speed:.2f}" for speed in one["speeds"])
    st.caption(
        f"The first {one['requests']:,} requests ({one['seconds']:,.0f} s) of the traffic, "
        f"{one['rounds']} rounds pooled; machine speed against the profile {speeds}. Predicted for "
        "the same requests with the settings that the engine resolved."
    )
    _two(results, found["percents"], words.of_class(lines, class_name), (class_name, share, seen))


def _load(results: Results, job: work.Job, headroom: Any) -> None:
    """The load curves; what they say goes to the top of the page."""
    st.subheader("With more or less traffic", help=LOAD_HELP)
    found = parts.result_of(job)
    if found is None:
        return
    said = words.capacity_words(found, any(results.slo.values()))
    headroom.markdown(said)
    curves = words.curves_in(found)
    if curves:
        figure = capacity_figure(curves, found["rate_rps"])
        parts.show_figure(tall(figure, style.source_of(results), words.LOAD_HEIGHT), "load")


LOAD_HELP = (
    "The same requests in the same order, with the time between arrivals stretched; simulated. "
    "Goodput is requests per second that meet every SLO of their class. The grey line is today's "
    "rate, a dotted one the highest rate that meets the SLOs."
)


def _over_time(results: Results, job: work.Job) -> None:
    st.subheader("The engine over time", help=TIME_HELP)
    found = parts.result_of(job)
    if found is None:
        return
    points = {name: one for name, one in found.items() if "failure" not in one}
    if points:
        figure = over_time_figure(points)
        tall(figure, style.source_of(results), words.TIME_HEIGHT)
        parts.show_figure(figure, "time")


TIME_HELP = (
    f"Simulated, all traffic. Of the steps in each of up to {derived.COLUMNS} equal spans of time, "
    "the largest value and the median; spans in which no step ended are left out. Click a name to "
    "hide or show its lines."
)
