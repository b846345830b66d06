"""How the outcomes of `stallfree watch` and `stallfree gate` look on a terminal."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from tuner.drift.finding import Finding
from tuner.drift.watch import Watched, named
from tuner.gate import Gate, Judged
from tuner.intervals import odds
from tuner.metrics import Metrics
from tuner.slo import missed_in_words

_FIGURES = (
    ("TTFT p99, ms", "ttft_p99_s", 1e3),
    ("ITL p99, ms", "itl_p99_s", 1e3),
    ("TPOT p99, ms", "tpot_p99_s", 1e3),
    ("goodput, requests/s", "goodput_rps", 1.0),
)


def print_watched(found: Watched, console: Console) -> None:
    """Findings, price and the verdict."""
    table = Table(
        *("quantity", "requests", "study", "now", "effect (least)", "p", ""),
        title=f"{found.study}: before and after",
        caption="p: chance of such an effect without a change, corrected for all rows of its kind",
    )
    for finding in found.findings:
        table.add_row(*_cells(finding))
    console.print(table)
    for text in _remarks(found):
        console.print(text, highlight=False, soft_wrap=True)
    console.print(figures_table(_priced(found), "on the new traffic, predicted"))
    console.print(price_line(found), highlight=False, soft_wrap=True)
    for reason in found.reasons:
        console.print(f"Re-tune: {reason}.", highlight=False, soft_wrap=True)
    if not found.retune:
        console.print(f"Fine: {_why_fine(found)}.", highlight=False, soft_wrap=True)


def _cells(f: Finding) -> tuple[str, ...]:
    mark = "drifted" if f.drifted else ""
    before, after = (f"{x:.4g} {f.unit}" for x in (f.before, f.after))
    return (f.quantity, f.of, before, after, f"{f.effect:.2f} ({f.least_effect:.2f})",
            f"{f.p:.3f}", mark)  # fmt: skip


def _remarks(found: Watched) -> list[str]:
    """What could not be judged, and what else there is to know."""
    not_judged = found.traffic.not_judged + (found.engine.not_judged if found.engine else [])
    remarks = [f"Not judged: {text}." for text in not_judged]
    if found.engine is None:
        remarks.append("Not judged: the engine's step times; give --metrics.")
    version = found.version
    if version.running is None:
        remarks.append(
            f"Not judged: the engine's version (profiled {version.profiled}); give "
            "--engine-version."
        )
    elif version.note and not version.drifted:
        remarks.append(
            f"Engine version {version.running}, profiled {version.profiled}: {version.note}."
        )
    if found.num_refused:
        remarks.append(
            f"{found.num_refused} requests of the new traffic are longer than max_model_len: the "
            "engine refuses them."
        )
    return remarks + [f"Not sampled by the latency model: {text}" for text in found.outside]


def price_line(found: Watched) -> str:
    """What the configuration is worth now, and what a new study costs."""
    price = found.price
    return (
        f"This configuration now gives {100 * price.share:.0f} % of the goodput that is reachable "
        f"({price.trials} configurations tried around it); a re-tune costs about "
        f"{price.cost.minutes:.1f} engine-minutes ({price.cost.how})."
    )


def _why_fine(found: Watched) -> str:
    drifted = [f for f in found.findings if f.drifted]
    if not drifted:
        return "nothing has drifted"
    held = "the configuration holds its SLOs and is about as good as any"
    return f"{named(drifted)} drifted, but {held}"


def _priced(found: Watched) -> dict[str, Metrics]:
    return {"deployed": found.price.deployed, "best found": found.price.best}


def figures_table(columns: dict[str, Metrics], title: str) -> Table:
    """Predicted figures side by side."""
    table = Table("figure", title=title)
    for name in columns:
        table.add_column(name, justify="right")
    for label, key, scale in _FIGURES:
        table.add_row(label, *(_number(getattr(m, key) * scale) for m in columns.values()))
    every = list(columns.values())
    for name in every[0].violations:
        shown = [m.violations.get(name, 0.0) for m in every]
        if not name.endswith(".unserved") or max(shown) > 0:
            table.add_row(f"{name} against its limit", *(f"{100 * v:+.0f} %" for v in shown))
    if every[0].chance:
        table.add_row("chance to meet the SLOs", *(odds(asdict(m)) for m in every))
    return table


def _number(value: float) -> str:
    if value != value:
        return "-"
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def print_gate(found: Gate, console: Console) -> None:
    """Settings, figures side by side, and the verdict."""
    console.print(_settings(found.judged))
    columns = {name: one.metrics for name, one in found.judged.items()}
    console.print(figures_table(columns, f"{found.study}: predicted on the study's traffic"))
    if found.not_judged:
        console.print(f"Not judged: {', '.join(found.not_judged)}.", highlight=False)
    if found.assumed:
        open_ = ", ".join(f"{name}={value}" for name, value in found.assumed.items())
        console.print(f"Left open, taken as in the study: {open_}.", highlight=False)
    for text in found.not_sampled:
        console.print(f"Not sampled by the latency model: {text}", highlight=False)
    for text in found.notes:
        console.print(f"Note: {text}", highlight=False, soft_wrap=True)
    console.print(gate_line(found), highlight=False, soft_wrap=True)


def _settings(judged: dict[str, Judged]) -> Table:
    table = Table("setting", *judged)
    for name in sorted({name for one in judged.values() for name in one.settings}):
        table.add_row(name, *(str(one.settings.get(name, "-")) for one in judged.values()))
    return table


def gate_line(found: Gate) -> str:
    """The verdict in one line."""
    change = ""
    if found.change is not None:
        change = f" Against the current settings: goodput {100 * found.change:+.1f} %."
    if found.passes:
        return f"Passes: every SLO is met, predicted.{change}"
    missed = missed_in_words(found.misses)
    others = [n for n, j in found.judged.items() if n != "proposed" and j.metrics.meets_slo]
    beside = f"; {' and '.join(others)} settings meet them" if others else ""
    return f"Fails: these settings would miss {missed}{beside}.{change}"
