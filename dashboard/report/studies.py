"""The summary of a report: what to deploy, why, and where it comes from."""

from __future__ import annotations

from dashboard import tables
from dashboard.report.section import Reported, Section
from dashboard.words.found import (
    provenance,
    readable,
    sentence,
    settings_against_default,
    slo_in_words,
)
from profiler.engines.base import Progress


def section(reported: Reported, progress: Progress) -> Section:
    """Of any run with results."""
    results = reported.results
    settings = settings_against_default(results)
    shown = [("Figures", readable(tables.confirmed(results)))]
    if len(settings):
        shown.append(("Settings against the engine default", settings))
    shown.append(("Provenance", provenance(results)))
    progress(1, 1)
    text = f"{sentence(results)}\n\nSLOs: {slo_in_words(results.slo)}. {results.trials:,} "
    return Section("Summary", f"{text}configurations were searched.", tables=tuple(shown))
