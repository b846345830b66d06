"""A report as one HTML file that needs nothing else: text, tables, and live figures."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from dashboard.report.section import Section

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 0 auto; padding: 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; border-top: 1px solid #8888; padding-top: 1rem; }
.source, caption { color: #777; font-size: 0.85rem; } caption { text-align: left; }
.table { overflow-x: auto; margin: 1rem 0; } .table td:last-child { min-width: 12rem; }
nav { display: flex; flex-wrap: wrap; gap: 0 1rem; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #8884; padding: 0.25rem 0.75rem 0.25rem 0; text-align: left; }
.figure { background: #fff; border-radius: 4px; margin: 1rem 0; }
@media print { .figure { break-inside: avoid; } nav { display: none; } }
"""
_FIGURE = {"displaylogo": False, "responsive": True}


def page(title: str, source: str, sections: Sequence[Section]) -> str:
    """The whole file. Whatever comes from a study is escaped.

    Parameters
    ----------
    source
        Which run, latency model and trace everything comes from, one line.
    """
    links = "".join(f'<a href="#s{i}">{escape(s.title)}</a>' for i, s in enumerate(sections))
    body = "".join(_section(i, s) for i, s in enumerate(sections))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
        f"<script>{get_plotlyjs()}</script></head><body>"
        f'<h1>{escape(title)}</h1><p class="source">{escape(source)}</p><nav>{links}</nav>'
        f"{body}</body></html>\n"
    )


def _section(index: int, section: Section) -> str:
    paragraphs = [p for p in section.text.split("\n\n") if p.strip()]
    text = "".join(f"<p>{escape(p)}</p>" for p in paragraphs)
    figures = "".join(_figure(f"s{index}-{i}", f) for i, f in enumerate(section.figures))
    tables = "".join(
        '<div class="table">'
        + frame.to_html(index=False, border=0, na_rep="-", float_format=_digits).replace(
            "<thead>", f"<caption>{escape(caption)}</caption><thead>", 1
        )
        + "</div>"
        for caption, frame in section.tables
    )
    return (
        f'<section><h2 id="s{index}">{escape(section.title)}</h2>{text}{figures}{tables}</section>'
    )


def _figure(name: str, figure: go.Figure) -> str:
    """The figure as a part of the page; its identifier is fixed, so that same data, same file."""
    light = go.Figure(figure).update_layout(template="plotly_white")
    html = light.to_html(full_html=False, include_plotlyjs=False, div_id=name, config=_FIGURE)
    return f'<div class="figure">{html}</div>'


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
