"""The latency model in a report."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from dashboard.derive import model_frames
from dashboard.derive.coverage import coverage
from dashboard.derive.held_out import held_out
from dashboard.derive.machine import machine_speed
from dashboard.figures import model, style
from dashboard.report.section import Reported, Section
from dashboard.words import model_words
from dashboard.work import Job
from profiler.collect import Profile
from profiler.engines.base import Progress


def section(reported: Reported, progress: Progress) -> Section | None:
    """Errors of replays and steps, what was sampled, facts; None where the profile is gone."""
    results, folder = reported.results, reported.folder
    if not folder.profile.is_dir():
        return None
    profile = Profile.load(folder.profile)
    report, facts, source = profile.report, profile.facts, style.source_of(results)
    errors = model_frames.confirmed_errors(results)
    text = [model_words.answer(report, facts), *model_words.of_the_machine(report, facts)]
    text.append(model_words.of_candidates(errors, results))
    found = Job("held-out steps", held_out, folder.path, ("profile",)).run(progress)
    arguments = ("profile", results.recommended.settings)
    reached = Job("coverage", coverage, folder.path, arguments).run(progress)
    text += [model_words.of_residuals(found), model_words.of_coverage(reached)]
    figures: list[tuple[go.Figure, int]] = []
    tables: list[tuple[str, pd.DataFrame]] = []
    if not errors.empty:
        figures.append((model.confirmed_figure(errors, results.evidence.value), 420))
        tables.append(("Replays", model_frames.confirmed_table(errors, results)))
    figures += [
        (model.errors_figure(report), 180 + 34 * len(report.rows)),
        (model.scatter_figure(found), 520),
        (model.residual_figure(found), 420),
        (model.coverage_figure(reached), 700),
    ]
    reference = facts.get("sentinel_reference_s")
    speed = machine_speed(profile.samples, float(reference)) if reference else None
    if speed is not None:
        figures.append((model.speed_figure(speed), 420))
    tables.append(("Error of single steps", model_frames.error_rows(report)))
    tables.append(("What the profile is of", model_frames.facts_table(facts)))
    finished = tuple(style.finish(figure, source, height=height) for figure, height in figures)
    return Section("Model", "\n\n".join(text), finished, tuple(tables))
