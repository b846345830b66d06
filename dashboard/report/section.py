"""One part of a report: what a page of the dashboard shows, without the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from profiler.engines.base import Progress
from tuner.results import Results, RunFolder


@dataclass(frozen=True)
class Section:
    """A heading with text, figures and tables below it, in this order."""

    title: str
    text: str = ""
    """plain text; a blank line begins a paragraph"""
    figures: tuple[go.Figure, ...] = ()
    """with their source (`figures.style.finish`)"""
    tables: tuple[tuple[str, pd.DataFrame], ...] = ()
    """(caption, rows)"""


@dataclass(frozen=True)
class Reported:
    """What a report is about."""

    folder: RunFolder
    results: Results
    point: str
    """as `session.point` has it"""


Write = Callable[[Reported, Progress], Section | None]
"""makes a section; None where the run has nothing for it, such as pools of a single engine"""
