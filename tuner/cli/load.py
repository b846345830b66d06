"""How load curves look: tables and charts on a terminal, JSON, and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from profiler.engine_config import EngineConfig
from profiler.errors import StudyError
from tuner.cli.charts import MARKERS, Series, chart, chart_size, is_wide
from tuner.cli.console import RichUi, print_json, stderr, stdout
from tuner.cli.whatif import Case, parse_settings
from tuner.search.load_curve import LoadCurve, load_curves
from tuner.search.load_figure import SHOWN, load_figure
from tuner.whole_files import write_text, writing

DEFAULT = "engine default"


def print_load(
    case: Case, configs: Sequence[str], picture: Path | None, *, plots: bool, as_json: bool
) -> None:
    """Compute the load curves of the case's configurations and show them."""
    if picture is not None and picture.suffix != ".html":
        raise StudyError(f"--plot writes an HTML file, got {str(picture)!r}; give FILE.html")
    chosen = configurations(case, configs)
    with RichUi().progress(f"load curves of {len(chosen)} configurations") as progress:
        curves = load_curves(case.problem, chosen, progress, seed=case.seed)
    if picture is not None:
        with writing(picture):
            write_text(picture, load_figure(curves).to_html(include_plotlyjs=True))
        stderr.print(f"Picture: {picture}", highlight=False, soft_wrap=True)
    if as_json:
        print_json({"curves": [curve.to_dict() for curve in curves]})
        return
    for curve in curves:
        stdout.print(curve_table(curve))
    if plots:
        print_charts(curves, stdout)
    if case.problem.slo.has_limits:
        stdout.print(highest_table(curves))
    else:
        stdout.print("No SLOs, so no highest rate; give --slo", highlight=False)


def configurations(case: Case, texts: Sequence[str]) -> dict[str, EngineConfig]:
    """The engine default, the run's recommendation, --set, and NAME:KEY=VAL,KEY=VAL texts.

    Raises `StudyError` for a text of another form or a name given twice, and `KnobError`.
    """
    fixed = case.problem.fixed
    found = {DEFAULT: fixed}
    if case.recommended is not None and case.recommended != fixed:
        found["recommended"] = case.recommended
    if case.config != fixed:
        found["--set"] = case.config
    for text in texts:
        name, colon, settings = text.partition(":")
        if not colon or not name or name in found:
            raise StudyError(
                "--config needs NAME:KEY=VAL,KEY=VAL with a name of its own, "
                f"like big:max_num_batched_tokens=8192; got {text!r}"
            )
        found[name] = parse_settings(settings.split(","), "--config").over(fixed)
    return found


def curve_table(curve: LoadCurve) -> Table:
    """The figures of one configuration, a row for each rate."""
    settings = ", ".join(f"{k}={v}" for k, v in curve.settings.items()) or "all defaults"
    table = Table(title=f"{curve.name}: {settings}", caption="times in ms")
    names = ("load", "req/s", "TTFT p50", "TTFT p99", "ITL p50", "ITL p99")
    for name in (*names, "good/s", "good", "SLOs"):
        table.add_column(name, justify="right")
    for point in curve.points:
        m = point.metrics
        table.add_row(
            f"x{point.factor:g}",
            f"{point.rate_rps:,.2f}",
            *(f"{1e3 * v:,.1f}" for v in (m.ttft_p50_s, m.ttft_p99_s, m.itl_p50_s, m.itl_p99_s)),
            f"{m.goodput_rps:,.2f}",
            f"{m.slo_attainment:.1%}",
            "met" if m.meets_slo else "no",
        )
    return table


def highest_table(curves: Sequence[LoadCurve]) -> Table:
    """The highest rate that meets the SLOs, against the engine default's."""
    table = Table("configuration", title="highest arrival rate that meets the SLOs")
    for name in ("requests/s", "against the default"):
        table.add_column(name, justify="right")
    first = curves[0].highest_rps
    for curve in curves:
        rate = curve.highest_rps
        text = "none" if rate is None else f"{'' if curve.bounded else 'at least '}{rate:,.2f}"
        against = f"{rate / first - 1:+.0%}" if rate is not None and first else "-"
        table.add_row(curve.name, text, against)
    return table


def print_charts(curves: Sequence[LoadCurve], console: Console) -> None:
    """The figures against the arrival rate, every configuration in one chart."""
    for label, figure in SHOWN:
        series = [
            Series(
                MARKERS[i % len(MARKERS)],
                curve.name,
                [p.rate_rps for p in curve.drawn],
                [figure(p.metrics) for p in curve.drawn],
            )
            for i, curve in enumerate(curves)
        ]
        wide = is_wide([y for one in series for y in one.y])
        title = f"{label}, against requests/s"
        console.print(chart(title, series, chart_size(console), log=["y"] if wide else []))
