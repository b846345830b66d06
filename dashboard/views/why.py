"""Why a token was late: the steps around a spike, a request's own time, and what was measured."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import data, parts, session, work
from dashboard.derive.late import late_requests
from dashboard.derive.measured_steps import profile_steps, replayed_ttfts
from dashboard.derive.points import points_of
from dashboard.derive.why import spikes, story
from dashboard.figures import style
from dashboard.figures.measured import profile_steps_figure, ttft_figure, words_of_similar
from dashboard.figures.why import gaps_figure
from dashboard.report import why as words
from tuner.results import Results

SPIKE = "spike"
OWN_CHOICE = "a request by its number"


def page() -> None:
    """Draw the page."""
    st.title("Why")
    run, results = parts.finished_run()
    points = points_of(results, parts.chosen_point(results), session.compared())
    lead = st.empty()
    name = next(iter(points))
    if len(points) > 1:
        name = str(st.radio("Configuration", list(points), horizontal=True))
    settings = points[name]
    if results.fleet is not None:
        _fleet(run, results, settings, lead)
        return
    found = parts.result_of(work.Job("The worst moments", spikes, run.folder.path, (settings,)))
    if found is None:
        return
    if "refused" in found:
        st.info(found["refused"])
        return
    what = _choose_spike(found, f"{run.name}-{name}")
    if what is None:
        st.info("No request of this run got a token, so there is nothing to explain.")
        return
    _explained(run, results, (settings, what), lead)


def _choose_spike(found: dict[str, Any], key: str) -> str | None:
    """What to explain, as `tuner.explain.explain` takes it; kept in the URL."""
    listed = {one["what"]: words.spike_words(one) for one in (*found["gaps"], *found["ttfts"])}
    if not listed:
        return None
    asked = st.query_params.get(SPIKE)
    options = [*listed, OWN_CHOICE]
    number = _request_in(asked)
    index = options.index(asked) if asked in listed else 0
    if asked is not None and asked not in listed and number is not None:
        index = len(options) - 1
    what = str(
        st.selectbox(
            "Explain",
            options,
            index=index,
            format_func=lambda w: listed.get(w, w),
            key=f"spike-{key}",
            help="The longest gaps (ITL) and the latest first tokens (TTFT) at different times.",
        )
    )
    if what == OWN_CHOICE:
        most = int(found["requests"])
        start = min(max(1, number or 1), most)
        chosen = st.number_input("Request", 1, most, start, key=f"request-{key}")
        what = f"request:{int(chosen)}"
    st.query_params[SPIKE] = what
    return what


def _request_in(asked: str | None) -> int | None:
    """N of request:N."""
    head, _, number = (asked or "").partition(":")
    return int(number) if head == "request" and number.isdecimal() else None


def _explained(run: data.Run, results: Results, what: tuple[Any, str], lead: Any) -> None:
    """One spike: its sentence on top of the page, its steps, its request, and the measured."""
    found = parts.result_of(work.Job("The steps around it", story, run.folder.path, what))
    if found is None:
        return
    if "refused" in found:
        st.info(found["refused"])
        return
    first, source = found["stories"][0], style.source_of(results)
    parts.answer(first["sentence"], lead)
    for number, one in enumerate(found["stories"]):
        st.subheader("Its longest gap" if one["kind"] == "gap" and number else _TITLES[one["kind"]])
        if number:
            st.markdown(one["sentence"])
        parts.show_figure(words.steps_picture(one, source), f"steps-{number}")
        cut = " Earlier steps since its arrival are left out." if one["cut"] else ""
        st.caption(words.STEPS_NOTE + cut)
    _request(results, found, source)
    _measured(run, results, what[0], found)
    st.subheader("The steps")
    parts.show_table(words.steps_table(first), "steps", f"{results.study}-steps")


_TITLES = {"gap": "The steps around the gap", "ttft": "The steps from arrival to first token"}


def _request(results: Results, found: dict[str, Any], source: str) -> None:
    """The request's own time, and its gaps."""
    st.subheader(f"Where the time of request {found['request']:,} went")
    parts.show_figure(words.waterfall_picture(found, source), "waterfall")
    if not found["gaps_s"]:
        return
    limits = {limits.get("itl_p99_s") for limits in results.slo.values()}
    limit = limits.pop() if len(limits) == 1 else None
    figure = style.finish(gaps_figure(found["gaps_s"], limit), source, height=320)
    parts.show_figure(figure, "gaps")
    shown, whole = len(found["gaps_s"]), found["output_tokens"] - 1
    if shown < whole:
        st.caption(f"The first {shown:,} of {whole:,} gaps.")


def _measured(
    run: data.Run, results: Results, settings: dict[str, Any], found: dict[str, Any]
) -> None:
    """What was measured of the same."""
    st.subheader("Simulated and measured")
    place, source, seen = run.folder.path, style.source_of(results), results.evidence.value
    if found["similar"] is not None:
        st.markdown(words_of_similar(found["similar"]))
    replays = parts.result_of(work.Job("Replays", replayed_ttfts, place, (settings,)))
    if replays:
        st.markdown(words.replay_words(found, seen))
        st.caption(
            f"TTFT of the first {replays['requests']:,} requests, {seen} and predicted for the "
            "same; replays keep first tokens, gaps and finishes, but no record of the steps."
        )
        figure = ttft_figure(replays, seen, found["request"])
        parts.show_figure(style.finish(figure, source), "ttfts")
    steps = parts.result_of(work.Job("Steps of the profile", profile_steps, place))
    if steps:
        st.caption(
            f"Measured steps: those of the first {steps['requests']:,} requests, which the profile "
            "replayed at the engine default, at the profile's speed, over the simulated steps of "
            "the same requests. Both begin with their first step."
        )
        figure = style.finish(profile_steps_figure(steps), source)
        parts.show_figure(figure, "profile-steps")
    if replays == {} and steps == {}:
        st.info("Nothing was measured in this run: its latency model and figures are predicted.")


def _fleet(run: data.Run, results: Results, settings: dict[str, Any], lead: Any) -> None:
    """What there is of a fleet."""
    job = work.Job("The latest requests", late_requests, run.folder.path, (settings,))
    found = parts.result_of(job)
    if found is None:
        return
    if "refused" in found:
        st.info(found["refused"])
        return
    parts.answer(words.late_words(found), lead)
    parts.show_table(words.late_table(found), "late", f"{results.study}-late")
    st.caption(
        "Replicas are numbered from 1, aggregated ones first, then prefill, then decode. The "
        "simulation of a fleet keeps no record of its steps, so there is no picture of them; for "
        "one replica's, run a study without `fleet` on its share of the traffic (traffic.share)."
    )
