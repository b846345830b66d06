"""The front, the chosen point and what each of its differences buys, for a report."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from dashboard import tables
from dashboard.derive.differences import differences
from dashboard.derive.importance import FEWEST_TRIALS, importance
from dashboard.figures import style
from dashboard.figures.differences import differences_figure, has_bars, height
from dashboard.figures.front import framed, front_figure
from dashboard.figures.front_view import Marks, View
from dashboard.figures.importance import importance_figure
from dashboard.figures.measures import GOODPUT, PER_GPU
from dashboard.report.section import Reported, Section
from dashboard.words import point_tables
from dashboard.work import Job
from profiler.engines.base import Progress
from tuner.export.from_results import Pick, picked


def section(reported: Reported, progress: Progress) -> Section | None:
    """What the Front page shows of the point; None where nothing could be predicted."""
    results = reported.results
    if not results.front:
        return None
    pick, trials = picked(results, reported.point), tables.trials(results)
    number = tables.number_at(results, reported.point, pick.candidate)
    point = next((p for p in results.front if p["number"] == number), None)
    figures = [_front(reported, trials, point)]
    shown = _tables(reported, pick, point)
    if point is not None:
        job = Job("", differences, reported.folder.path, (point["settings"],))
        found = job.run(progress)
        if has_bars(found):
            figures.append(_finished(reported, differences_figure(found), height(found)))
            shown.append(("What each difference buys", point_tables.differences_table(found)))
    if len(trials) >= FEWEST_TRIALS:
        found = Job("", importance, reported.folder.path).run(progress)
        if any(found["figures"].values()):
            figures.append(_finished(reported, importance_figure(found), 460))
    text = "\n\n".join(point_tables.lead(results))
    if pick.candidate.settings != results.recommended.settings:
        text += f"\n\nThis report is about {point_tables.title(results, pick, number)}."
    return Section("Front", text, tuple(figures), tuple(shown))


def _finished(reported: Reported, figure: go.Figure, pixels: int) -> go.Figure:
    return style.finish(figure, style.source_of(reported.results), height=pixels)


def _front(reported: Reported, trials: pd.DataFrame, point: dict[str, Any] | None) -> go.Figure:
    results = reported.results
    marks = Marks(
        chosen=None if point is None else point["number"],
        default=tables.number_of(results, results.default),
        recommended=tables.number_of(results, results.recommended),
        intervals={} if point is None else point["intervals"],
    )
    shade = GOODPUT if results.fleet is None else PER_GPU
    view = View(shade=shade, limits=results.slo)
    figure = front_figure(trials, tables.pairs(results), view, marks)
    return framed(figure, style.source_of(results))


def _tables(
    reported: Reported, pick: Pick, point: dict[str, Any] | None
) -> list[tuple[str, pd.DataFrame]]:
    """Those of the point that there are."""
    results, found = reported.results, []
    if point is not None:
        default = tables.number_of(results, results.default)
        other = next((p for p in results.front if p["number"] == default), None)
        found.append(("Predicted figures", point_tables.figures_table(point, other)))
    confirmed = point_tables.confirmed_table(pick.candidate, pick.evidence)
    found.append((f"Predicted and {pick.evidence}, of the replayed requests", confirmed))
    settings = point_tables.settings_table(results, pick)
    found.append(("What differs from the engine default", settings))
    return [(caption, table) for caption, table in found if not table.empty]
