"""The traffic of a run, for a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from dashboard.derive.traffic_shape import traffic_shape
from dashboard.figures import style
from dashboard.figures import traffic as figures
from dashboard.report.section import Reported, Section
from dashboard.words import traffic_words
from profiler.engines.base import Progress
from profiler.traffic.trace import Trace
from tuner.study import load_study


def section(reported: Reported, progress: Progress) -> Section | None:
    """What the traffic page shows, without drift; None where the run kept no traffic."""
    folder = reported.folder
    if not folder.trace.exists():
        return None
    shape = traffic_shape(Trace.load(folder.trace))
    progress(1, 1)
    report = traffic_words.kept_report(folder)
    tables = [
        (
            "Regimes, stretches with much the same rate and lengths",
            traffic_words.regimes_table(shape),
        ),
        ("Percentiles of lengths, tokens", traffic_words.lengths_table(shape)),
    ]
    if report is not None:
        tables.append(("How it was read", traffic_words.reading_table(report)))
    text = _paragraphs(reported, shape, known=report is not None)
    return Section("Traffic", "\n\n".join(text), _figures(reported, shape), tuple(tables))


def _figures(reported: Reported, shape: Mapping[str, Any]) -> tuple[go.Figure, ...]:
    source, drawn = style.source_of(reported.results), []
    if shape["rate"]["rate_rps"]:
        rate = figures.rate_figure(shape["rate"], shape["regimes"])
        drawn.append(style.finish(rate, source))
    lengths = figures.lengths_figure(shape["histograms"])
    drawn.append(style.finish(lengths, source, height=560))
    drawn.append(style.finish(figures.joint_figure(shape["joint"]), source))
    if shape["burstiness"] is not None:
        drawn.append(style.finish(figures.burstiness_figure(shape["burstiness"]), source))
    return tuple(drawn)


def _paragraphs(reported: Reported, shape: Mapping[str, Any], *, known: bool) -> list[str]:
    """The sentences of the page; `known` is whether the run kept how the traffic was read."""
    folder = reported.folder
    study = load_study(folder.study_file, folder.base)
    source = shape["diagnosis"]["figures"]["source"]
    return [
        traffic_words.headline(shape),
        *(f"Artefact of the recording: {text}." for text in shape["diagnosis"]["artefacts"]),
        traffic_words.regimes_sentence(shape),
        traffic_words.burst_sentence(shape),
        traffic_words.sharing_sentence(shape),
        *filter(None, [traffic_words.images_sentence(shape)]),
        *([] if known else [traffic_words.without_report(source)]),
        *filter(None, [traffic_words.taken(study.traffic)]),
    ]
