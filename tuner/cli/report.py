"""How results look on a terminal: table, front, verdict."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tuner.candidate import Candidate, Evidence, Verdict
from tuner.cli.charts import Series, chart, is_wide
from tuner.cli.fleet_report import print_fleets
from tuner.fleet_plan import MOST_REHEARSED
from tuner.intervals import ALL, odds
from tuner.results import Results
from tuner.slo import missed_in_words

_ROWS = (
    ("TTFT p50, ms", "ttft_p50_s", 1e3),
    ("TTFT p99, ms", "ttft_p99_s", 1e3),
    ("ITL p50, ms", "itl_p50_s", 1e3),
    ("ITL p99, ms", "itl_p99_s", 1e3),
    ("goodput, requests/s", "goodput_rps", 1.0),
)
_PLOT_SIZE = (80, 20)


def print_results(results: Results, console: Console) -> None:
    """Everything a person wants to see of a finished run, except where its bundle is."""
    if results.fleet is not None:
        print_fleets(results, console)
    else:
        console.print(settings_table(results))
        console.print(metrics_table(results))
    console.print(front_plot(results))
    console.print(verdict_line(results), highlight=False, soft_wrap=True)
    for candidate in results.candidates:
        if candidate.failure is not None:
            console.print(
                f"{candidate.label} was not {results.evidence}: {candidate.failure}",
                highlight=False,
            )
    for sentence in results.recommended.not_sampled:
        console.print(f"Not sampled by the latency model: {sentence}", highlight=False)


def settings_table(results: Results) -> Table:
    """The settings in which default and recommended differ, as the engine resolved them."""
    table = Table("setting", "engine default", "recommended", title=f"{results.study}: settings")
    default, recommended = results.default.resolved, results.recommended.resolved
    for name in sorted({*default, *recommended}):
        if default.get(name) != recommended.get(name):
            table.add_row(name, str(default.get(name)), str(recommended.get(name)))
    if not table.row_count:
        table.add_row("(none differs)", "", "")
    return table


def metrics_table(results: Results) -> Table:
    """Predicted against measured (or rehearsed), for the default and the recommended one."""
    names, title, caption = _layout(results)
    table = Table(title=title, caption=caption)
    table.add_column("figure")
    for name in names:
        table.add_column(name, justify="right")
    shown = {"engine default": results.default, "recommended": results.recommended}
    for name, candidate in shown.items():
        table.add_row(f"[bold]{name}[/bold]")
        for label, key, scale in _rows(results):
            cells = _cells(candidate, key, scale)
            cells = {results.evidence.value: cells["measured"], **cells}
            table.add_row(label, *(cells[name] for name in names))
        if _AT_SPEED in names:
            table.add_row("machine speed", "1.00", _speeds(candidate), "1.00", "")
        for label, chance in _chances(candidate.predicted):
            table.add_row(label, chance)
        table.add_section()
    return table


def _rows(results: Results) -> list[tuple[str, str, float]]:
    """Label, figure and scale of each row."""
    if results.num_gpus is None:
        return list(_ROWS)
    return [*_ROWS, ("goodput per GPU, requests/s", "goodput_rps", 1.0 / results.num_gpus)]


_AT_SPEED = "at profile speed"


def _layout(results: Results) -> tuple[list[str], str, str]:
    """Columns, title and caption of the table of figures."""
    if results.evidence is Evidence.PREDICTED:
        return ["predicted"], f"predicted; {results.evidence.note}", _PREDICTED_CAPTION
    title = f"predicted, and {results.evidence.note}"
    names = ["predicted", results.evidence.value, _AT_SPEED, "error"]
    if results.evidence is Evidence.REHEARSED:
        names.remove(_AT_SPEED)
        return names, title, _REHEARSED_CAPTION
    return names, title, _CAPTION


_CAPTION = (
    "predicted: with 90 % intervals, and chance to meet the SLOs, over windows of the replayed "
    "traffic; at profile speed: measured times scaled by the machine's speed during the replay; "
    "error: predicted against that"
)
_PREDICTED_CAPTION = (
    "predicted: with 90 % intervals, and chance to meet the SLOs, over windows of the traffic"
)
_REHEARSED_CAPTION = (
    "predicted: with 90 % intervals, and chance to meet the SLOs, over windows of the replayed "
    "traffic; error: predicted against rehearsed; no GPU was involved"
)


def _chances(predicted: dict[str, Any] | None) -> list[tuple[str, str]]:
    """The chance to meet all SLOs, and that of each that is not met in every window."""
    if predicted is None or not predicted["chance"]:
        return []
    missed = [k for k, share in predicted["chance"].items() if k != ALL and share < 1]
    rows = [("chance to meet the SLOs", odds(predicted))]
    return rows + [(f"  {name}", odds(predicted, name)) for name in missed]


def _cells(candidate: Candidate, key: str, scale: float) -> dict[str, str]:
    """Texts of one figure, by column."""
    sources = (candidate.predicted, candidate.measured, candidate.corrected)
    predicted, measured, corrected = (_value(s, key) for s in sources)
    error = "-"
    if predicted is not None and corrected:
        error = f"{100 * (predicted - corrected) / corrected:+.1f} %"
    shown = _number(predicted, scale) + _interval(candidate.predicted, key, scale)
    return {
        "predicted": shown,
        "measured": _number(measured, scale),
        _AT_SPEED: _number(corrected, scale),
        "error": error,
    }


def _interval(metrics: dict[str, Any] | None, key: str, scale: float) -> str:
    ends = None if metrics is None else metrics["intervals"].get(key)
    return "" if ends is None else f" ({'-'.join(_number(end, scale) for end in ends)})"


def _value(metrics: dict[str, Any] | None, key: str) -> float | None:
    return None if metrics is None else metrics[key]


def _number(value: float | None, scale: float) -> str:
    if value is None:
        return "-"
    return f"{value * scale:,.2f}" if value * scale < 100 else f"{value * scale:,.0f}"


def _speeds(candidate: Candidate) -> str:
    return " ".join(f"{r['speed']:.2f}" for r in candidate.replays) or "-"


def front_plot(results: Results) -> Text:
    """ITL p99 against TTFT p99 of every trial, predicted, drawn with characters."""
    points = [p for p in results.front if None not in (p["ttft_p99_s"], p["itl_p99_s"])]
    groups = [
        ("·", "misses an SLO", [p for p in points if not p["feasible"]]),
        ("o", "meets the SLOs", [p for p in points if p["feasible"] and not p["on_front"]]),
        ("#", "front", [p for p in points if p["on_front"]]),
        ("D", "default", _same(points, results.default)),
        ("R", "recommended", _same(points, results.recommended)),
    ]
    series = [
        Series(
            marker,
            f"{name} ({len(group)})",
            [1e3 * p["itl_p99_s"] for p in group],
            [1e3 * p["ttft_p99_s"] for p in group],
        )
        for marker, name, group in groups
    ]
    title = "Pareto front of the search, predicted: TTFT p99 against ITL p99, ms"
    log = ["y"] if is_wide([p["ttft_p99_s"] for p in points]) else []
    return chart(title, series, _PLOT_SIZE, log=log)


def _same(points: Iterable[dict[str, Any]], candidate: Candidate) -> list[dict[str, Any]]:
    return [p for p in points if p["settings"] == candidate.settings][:1]


def verdict_line(results: Results) -> str:
    """What the run found, in one line."""
    if results.verdict is Verdict.PREDICTED:
        return _predicted_line(results)
    how = results.evidence.value
    where = f"{results.trials} configurations tried, {_num_measured(results)} {how}"
    if results.verdict is Verdict.NOTHING_MET:
        missed = missed_in_words(results.misses)
        return (
            f"Nothing met the SLOs ({where}). Closest: {results.recommended.label}, "
            f"which misses {missed}."
        )
    if results.verdict is Verdict.DEFAULT_IS_BEST:
        return (
            f"The engine default meets the SLOs and nothing {how} was better ({where})."
            f"{_outlook(results)}"
        )
    return (
        f"Recommended: {results.recommended.label}; it meets the SLOs, {how} ({where})."
        f"{_outlook(results)}"
    )


def _outlook(results: Results) -> str:
    """Predicted chance of the recommended configuration, beside the default's where they differ."""
    chosen, default = results.recommended.predicted, results.default.predicted
    if chosen is None or default is None or not chosen["chance"]:
        return ""
    beside = "" if chosen is default else f", the engine default {odds(default)}"
    return f" Predicted chance to meet them on traffic like this: {odds(chosen)}{beside}."


def _predicted_line(results: Results) -> str:
    chosen = results.recommended.label
    found = f"{chosen} would meet the SLOs"
    if results.misses:
        missed = missed_in_words(results.misses)
        found = f"nothing would meet the SLOs; closest is {chosen}, which would miss {missed}"
    advice = "Rehearse it with `stallfree confirm`, and confirm on the GPU before you rely on it."
    if results.fleet is not None:
        advice = f"{_rehearsable(results)} Try it on the GPUs before you rely on it."
    return (
        f"Predicted only, not measured ({results.trials} configurations tried): {found}. {advice}"
    )


def _rehearsable(results: Results) -> str:
    """Whether `stallfree confirm` can rehearse this run of fleets."""
    plans = (results.default.plan, results.recommended.plan)
    most = max(plan.num_replicas for plan in plans if plan is not None)
    if most <= MOST_REHEARSED:
        return "Rehearse it with `stallfree confirm`."
    return (
        f"With up to {most} replicas it is too large for `stallfree confirm`, which rehearses "
        f"{MOST_REHEARSED} and says how to scale the study down."
    )


def _num_measured(results: Results) -> int:
    return sum(c.measured is not None for c in results.candidates)
