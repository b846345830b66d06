"""The part of the traffic page that compares with newer traffic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st

from dashboard import data, parts
from dashboard.derive.traffic_drift import Newer, drift_price, traffic_drift
from dashboard.figures import style
from dashboard.figures import traffic as figures
from dashboard.markdown import plain
from dashboard.options import current
from dashboard.uploads.passing import job_on
from dashboard.words import export_words, traffic_words
from dashboard.work import Job, Work
from profiler.errors import StallfreeError
from tuner.drift.price import TRIALS

_FILE, _RUN = "an uploaded file", "another run"
_PRICED = "priced-traffic"


@dataclass(frozen=True)
class _Chosen:
    """Newer traffic that was asked for."""

    name: str
    """differs for different files"""
    job: Callable[[str, Work], Job]
    """`job(title, function)`: one on it"""


def section(run: data.Run, source: str) -> None:
    """What has changed since: findings, distributions, rates, and the price on request."""
    st.subheader("Has it drifted?")
    chosen = _chosen(run)
    if chosen is None:
        return
    drift = parts.result_of(chosen.job("Comparing the traffic", traffic_drift))
    if drift is None:
        return
    if "error" in drift:
        st.error(plain(drift["error"]))
        return
    _findings(run, drift, source)
    if _has_price(run):
        _price(run, chosen)


def _chosen(run: data.Run) -> _Chosen | None:
    """The newer traffic that was asked for, if any was."""
    way = st.radio("Compare with newer traffic from", [_FILE, _RUN], horizontal=True)
    return _uploaded(run) if way == _FILE else _of_run(run)


def _uploaded(run: data.Run) -> _Chosen | None:
    most = current().max_upload_mb
    given = st.file_uploader(
        "Recorded traffic: CSV, JSONL, JSON or Parquet, plain or gzip",
        max_upload_size=most,
        help="Its format is found by its content. The file is read once and removed; nothing of "
        "it is kept.",
    )
    columns = st.text_input(
        "Columns, where the format is not known",
        placeholder="arrival=ts,prompt=in,output=out,unit=ms",
    )
    if given is None:
        return None
    if given.size > most * 1024**2:
        st.error(f"The file has more than {most} MB; give a part of it, or use `stallfree watch`.")
        return None
    content, newer = given.getvalue(), Newer(None, columns.strip() or None)
    place = str(run.folder.path)
    return _Chosen(
        f"{run.name}/{given.file_id}",
        lambda title, function: job_on(content, title, function, place, newer),
    )


def _of_run(run: data.Run) -> _Chosen | None:
    others = {n: r for n, r in data.runs().items() if n != run.name and r.folder.trace.exists()}
    if not others:
        st.info("There is no other run with traffic.")
        return None
    name = st.selectbox("Run", list(others), index=None, placeholder="Choose a run")
    if name is None:
        return None
    trace = others[name].folder.trace
    newer = Newer(str(trace), None, trace.stat().st_mtime_ns)
    place = run.folder.path
    return _Chosen(
        f"{run.name}/{name}",
        lambda title, function: Job(title, function, place, (str(place), newer)),
    )


def _findings(run: data.Run, drift: dict[str, Any], source: str) -> None:
    show = st.warning if any(f["drifted"] for f in drift["findings"]) else st.success
    show(plain(traffic_words.drift_sentence(drift)))
    for text in drift["not_judged"]:
        st.caption(plain(f"Not judged: {text}."))
    table = traffic_words.findings_table(drift["findings"])
    parts.show_table(table, "drift", f"{run.name}-drift")
    st.caption(
        "Drifted: the effect is at least the least effect, and chance alone gives one as large in "
        "at most 5 % of cases (p, corrected for the number of rows). Effects: of a rate, larger "
        "over smaller minus 1; of lengths, the area between the two distributions over the mean "
        "before; of sharing, the difference."
    )
    lengths = figures.before_after_lengths(drift["lengths"])
    parts.show_figure(style.finish(lengths, source, height=560), "drift-lengths")
    rates = figures.before_after_rate(drift["rates"])
    parts.show_figure(style.finish(rates, source), "drift-rates")


def _has_price(run: data.Run) -> bool:
    try:
        return run.has_results and run.study.fleet is None
    except StallfreeError:
        return False


def _price(run: data.Run, chosen: _Chosen) -> None:
    """What the configuration gives on it, once it was asked for."""
    if not _asked(chosen):
        return
    price = parts.result_of(chosen.job("Searching what is reachable", drift_price))
    if price is None:
        return
    if "error" in price:
        st.error(plain(price["error"]))
        return
    if price["retune"]:
        st.warning(plain("Tune again: " + "; ".join(price["reasons"]) + "."))
    else:
        st.success("No reason to tune again.")
    st.markdown(price["line"])
    parts.show_table(traffic_words.priced_table(price["price"]), "priced", f"{run.name}-price")
    best = export_words.settings_words(price["price"]["best_settings"])
    st.caption(plain(f"Best found: {best}. All predicted."))
    for text in price["not_sampled"]:
        st.caption(plain(f"Not sampled by the latency model: {text}"))
    if price["num_refused"]:
        st.caption(f"{price['num_refused']:,} requests are too long for the engine.")


def _asked(chosen: _Chosen) -> bool:
    """Whether the price of this traffic was asked for, now or before."""
    pressed = st.button(
        "What does the deployed configuration give on it?",
        help=f"Simulates up to {TRIALS} configurations on the newer traffic; takes from seconds to "
        "minutes. What the run recommends is taken to be deployed.",
    )
    if pressed:
        st.session_state[_PRICED] = chosen.name
    return bool(st.session_state.get(_PRICED) == chosen.name)
