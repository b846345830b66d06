"""Prefill and decode pools: which fleet to run, what its pools do, and whether to split at all."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import data, parts
from dashboard.derive import fleet_frames, fleet_tables
from dashboard.derive.pool_use import pool_use
from dashboard.derive.router_effects import router_effects
from dashboard.derive.verdict_frames import flips_table, regimes_table, sides_table
from dashboard.figures import pools, routers, style, verdict
from dashboard.words import fleet_words
from dashboard.work import Job
from profiler.errors import StallfreeError
from tuner.candidate import Candidate
from tuner.cli.verdict_report import bounds_sentence, gain_sentence
from tuner.results import Results


def page() -> None:
    """Draw the page."""
    st.title("Pools")
    run, results = parts.finished_run()
    if results.fleet is None:
        st.info(fleet_words.NO_POOLS)
        return
    judged = _verdict_of(run)
    _answer(results, judged)
    chosen = parts.chosen_point(results).candidate
    trials = fleet_frames.trial_fleets(results)
    _map(results, trials, chosen)
    _use(run, results, chosen)
    _verdict(run, results, judged)
    _routers(run, results, trials)


def _verdict_of(run: data.Run) -> dict[str, Any] | None:
    """The verdict, if there is one that can be read."""
    try:
        return run.folder.load_verdict()
    except StallfreeError as error:
        st.error(str(error))
        return None


def _answer(results: Results, judged: dict[str, Any] | None) -> None:
    parts.answer(fleet_words.answer(results))
    lines = [*fleet_words.against_others(results), *fleet_words.about(results)]
    if judged is not None:
        lines.append(fleet_words.verdict_sentence(judged))
    st.markdown("\n".join(f"- {line}" for line in lines))
    st.caption(fleet_words.basis(results))
    with st.expander("The recommended fleet and the other candidates"):
        table = fleet_tables.candidate_fleets(results)
        parts.show_table(table, "pools-candidates", f"{results.study}-fleets")


def _map(results: Results, trials: pd.DataFrame, chosen: Candidate) -> None:
    st.subheader("Which numbers of replicas")
    if trials.empty:
        st.info("No trial of this run could be predicted.")
        return
    fewest = bool((results.fleet or {}).get("fewest"))
    split = trials[trials["mode"] == "disaggregated"]
    source = style.source_of(results)
    if split.empty:
        st.info("No trial of this run is split; add disaggregated to `fleet.modes` for the map.")
    else:
        cells = fleet_frames.best_of(split, ["prefill", "decode"], fewest=fewest)
        figure = pools.ratio_map(cells, fewest=fewest, chosen=chosen.settings)
        parts.show_figure(style.finish(figure, source, height=460), "pools-map")
        st.caption(
            f"{'GPUs' if fewest else 'Good requests/s per GPU'} of the best trial with so many "
            "prefill and decode replicas, predicted on the part of the traffic that the search "
            "looks at; an empty cell was not tried. ★: recommended, ◆: looked at, ✕: misses an SLO."
        )
    best = fleet_frames.best_kinds(trials, fewest=fewest)
    height = 200 + 46 * len(best)
    figure = style.finish(pools.kinds_figure(best), source, height=height)
    parts.show_figure(figure, "pools-kinds")
    st.caption("The best trial of each kind of fleet, the engine default beside them.")
    with st.expander("All trials"):
        parts.show_table(fleet_tables.trial_table(trials), "pools-trials", "trials")


def _use(run: data.Run, results: Results, chosen: Candidate) -> None:
    plan = chosen.plan
    if plan is None:
        return
    st.subheader("What the pools do")
    st.write(f"{chosen.label}: {plan.words()}.")
    job = Job("simulating the pools", pool_use, run.folder.path, (chosen.settings,))
    found = parts.result_of(job)
    use = chosen.use if found is None else found["pools"]
    parts.show_table(fleet_tables.pool_table(plan, use), "pools-use", f"{results.study}-pools")
    st.caption(
        "Load: work of the pool's requests against what its replicas can do in the traffic's time, "
        "by the latency model; above 100 % its queue grows without end."
    )
    if found is None:
        return
    source = style.source_of(results)
    height = 170 + 210 * len(found["pools"])
    figure = style.finish(pools.progress_figure(found), source, height=height)
    parts.show_figure(figure, "pools-progress")
    st.caption(
        "Requests in progress: on a prefill replica from the arrival to its token there, on a "
        "decode replica from then (waiting for the KV included) to the last token."
    )
    figure = style.finish(pools.shares_figure(found["pools"]), source, height=height)
    parts.show_figure(figure, "pools-shares")
    st.caption(fleet_words.transfer_sentence(found["transfer"]))


def _verdict(run: data.Run, results: Results, judged: dict[str, Any] | None) -> None:
    st.subheader("Split or not: the verdict")
    if judged is None:
        st.info(fleet_words.how_to_judge(results, str(run.folder.path)))
        return
    st.write(fleet_words.verdict_sentence(judged))
    source = style.source_of(results)
    for number, one in enumerate(judged["map"] or ()):
        figure = style.finish(verdict.map_figure(judged, one), source, height=460)
        parts.show_figure(figure, f"pools-verdict-{number}")
    if judged["map"]:
        st.caption(
            "Goodput per GPU of the better side against the other, %. A: aggregated ahead; S: "
            "split ahead; =: a tie, run the simpler, aggregated one; ✕: neither meets the SLOs. "
            "Framed: this traffic and link. Goodput counts here by the arrival rate, above by the "
            "time to the last finish."
        )
    st.markdown("\n".join(f"- {line}" for line in fleet_words.flips_in_words(judged)))
    figure = style.finish(verdict.headroom_figure(judged), source, height=260)
    parts.show_figure(figure, "pools-headroom")
    _regimes(judged, source)
    with st.expander("The best of each side, and every flip"):
        parts.show_table(sides_table(judged), "pools-sides", "sides")
        parts.show_table(flips_table(judged), "pools-flips", "flips")
    st.caption(bounds_sentence(judged))


def _regimes(judged: dict[str, Any], source: str) -> None:
    """The best P:D over time."""
    regimes = judged["regimes"]
    if regimes is None or not regimes["stretches"]:
        return
    st.write(gain_sentence(regimes))
    if len(regimes["stretches"]) == 1:
        return
    rows = len(regimes["stretches"][0]["by_ratio"])
    figure = style.finish(verdict.regimes_figure(regimes), source, height=220 + 20 * rows)
    parts.show_figure(figure, "pools-regimes")
    st.caption("Goodput of each ratio as a share of the best one in the same regime; ★: planned.")
    with st.expander("Regimes as a table"):
        parts.show_table(regimes_table(regimes), "pools-regime-table", "regimes")


def _routers(run: data.Run, results: Results, trials: pd.DataFrame) -> None:
    st.subheader("Router rules")
    plan = results.recommended.plan
    assert plan is not None  # results of fleets
    arguments = (results.recommended.settings,)
    job = Job("simulating every router rule", router_effects, run.folder.path, arguments)
    found = parts.result_of(job)
    source = style.source_of(results)
    if found is not None:
        st.write(fleet_words.router_sentence(found["rows"]))
        figure = routers.effects_figure(found["rows"], fleet_frames.only_limits(results))
        height = 240 + 66 * len(found["rows"])
        parts.show_figure(style.finish(figure, source, height=height), "pools-routers")
        st.caption(
            "The recommended fleet, one rule changed at a time (★ its own), same requests and "
            "seeds; bars: 90 % interval over windows of traffic like it. First: for an aggregated "
            "or prefill replica; decode: for a decode replica."
        )
        for line in fleet_words.refusals(found["rows"]):
            st.caption(line)
        table = fleet_tables.effects_table(found["rows"])
        parts.show_table(table, "pools-router-table", "router-rules")
    quantiles = fleet_frames.rule_quantiles(trials)
    if not quantiles.empty:
        height = 260 + 90 * quantiles["rules"].nunique()
        figure = style.finish(routers.rules_figure(quantiles), source, height=height)
        parts.show_figure(figure, "pools-rules")
        st.caption(
            "All trials of the search by router rule (first / decode; number of trials in "
            "brackets): box 25 to 75 %, whiskers 5 to 95 %. Trials differ in everything else, too."
        )
