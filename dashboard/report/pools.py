"""The pools of a fleet in a report."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from dashboard.derive import fleet_frames, fleet_tables, verdict_frames
from dashboard.derive.pool_use import pool_use
from dashboard.derive.router_effects import router_effects
from dashboard.figures import pools, routers, style, verdict
from dashboard.report.section import Reported, Section
from dashboard.words import fleet_words
from dashboard.work import Job
from profiler.engines.base import Progress
from tuner.cli.verdict_report import bounds_sentence, gain_sentence
from tuner.export.from_results import picked
from tuner.results import Results

Tables = list[tuple[str, pd.DataFrame]]


def section(reported: Reported, progress: Progress) -> Section | None:
    """Which fleet, the map of P:D, use, verdict and router rules; None for one engine."""
    results = reported.results
    if results.fleet is None:
        return None
    source, judged = style.source_of(results), reported.folder.load_verdict()
    chosen, path = picked(results, reported.point).candidate, reported.folder.path
    figures = _maps(results, chosen.settings, source)
    tables: Tables = [("Candidates", fleet_tables.candidate_fleets(results))]
    use = Job("pools", pool_use, path, (chosen.settings,)).run(progress)
    if chosen.plan is not None:
        tables.append((chosen.plan.words(), fleet_tables.pool_table(chosen.plan, use["pools"])))
    height = 170 + 210 * len(use["pools"])
    figures.append(style.finish(pools.progress_figure(use), source, height=height))
    text = [fleet_words.answer(results), *fleet_words.against_others(results)]
    text += fleet_words.about(results)
    if judged is None:
        text.append(fleet_words.how_to_judge(results, str(path)))
    else:
        text += _judged_text(judged)
        figures += _judged_figures(judged, source)
        tables.append(("The best of each side", verdict_frames.sides_table(judged)))
    effects = Job("routers", router_effects, path, (results.recommended.settings,)).run(progress)
    rows = effects["rows"]
    text.append(fleet_words.router_sentence(rows))
    tables.append(("Router rules, all else equal", fleet_tables.effects_table(rows)))
    figure = routers.effects_figure(rows, fleet_frames.only_limits(results))
    figures.append(style.finish(figure, source, height=240 + 66 * len(rows)))
    text.append(fleet_words.basis(results))
    return Section("Pools", "\n\n".join(text), tuple(figures), tuple(tables))


def _maps(results: Results, chosen: dict[str, Any], source: str) -> list[go.Figure]:
    """P:D among the trials, and the best of each kind."""
    trials, fewest = fleet_frames.trial_fleets(results), bool((results.fleet or {}).get("fewest"))
    if trials.empty:
        return []
    figures = []
    split = trials[trials["mode"] == "disaggregated"]
    if not split.empty:
        cells = fleet_frames.best_of(split, ["prefill", "decode"], fewest=fewest)
        figure = pools.ratio_map(cells, fewest=fewest, chosen=chosen)
        figures.append(style.finish(figure, source, height=460))
    best = fleet_frames.best_kinds(trials, fewest=fewest)
    figure = style.finish(pools.kinds_figure(best), source, height=200 + 46 * len(best))
    return [*figures, figure]


def _judged_text(judged: dict[str, Any]) -> list[str]:
    text = [fleet_words.verdict_sentence(judged), *fleet_words.flips_in_words(judged)]
    if judged["regimes"] is not None and judged["regimes"]["stretches"]:
        text.append(gain_sentence(judged["regimes"]))
    return [*text, bounds_sentence(judged)]


def _judged_figures(judged: dict[str, Any], source: str) -> list[go.Figure]:
    figures = [
        style.finish(verdict.map_figure(judged, one), source, height=460)
        for one in judged["map"] or ()
    ]
    figures.append(style.finish(verdict.headroom_figure(judged), source, height=260))
    regimes = judged["regimes"]
    if regimes is not None and len(regimes["stretches"]) > 1:
        rows = len(regimes["stretches"][0]["by_ratio"])
        figure = verdict.regimes_figure(regimes)
        figures.append(style.finish(figure, source, height=220 + 20 * rows))
    return figures
