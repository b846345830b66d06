"""Which sections a report has, and in what order."""

from __future__ import annotations

from dashboard.figures.style import source_of
from dashboard.report import export, front, latency, model, pools, studies, traffic, why
from dashboard.report.page import page
from dashboard.report.section import Reported, Section, Write
from profiler.engines.base import Progress
from profiler.errors import StallfreeError
from tuner.search.progress import Ui

SECTIONS: dict[str, Write] = {
    "Studies": studies.section,
    "Front": front.section,
    "Latency": latency.section,
    "Why": why.section,
    "Pools": pools.section,
    "Model": model.section,
    "Traffic": traffic.section,
    "Export": export.section,
}
"""title while it is being made -> what makes it"""


def report(reported: Reported, ui: Ui) -> str:
    """The report as HTML. A section that cannot be made says why in its place."""
    made = []
    for title, write in SECTIONS.items():
        with ui.progress(title) as progress:
            section = _made(title, write, reported, progress)
        if section is not None:
            made.append(section)
    results = reported.results
    return page(f"Stallfree: {results.study}", source_of(results), made)


def _made(title: str, write: Write, reported: Reported, progress: Progress) -> Section | None:
    try:
        return write(reported, progress)
    except StallfreeError as error:
        return Section(title, f"Not available: {error}")
