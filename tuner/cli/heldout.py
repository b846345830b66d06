"""How a profile's held-out error looks on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from profiler.latency.report import HeldOutReport


def print_heldout(report: HeldOutReport, console: Console) -> None:
    """Error by region on steps left out of the fit, the sentinel's spread, unsampled regions."""
    table = Table(title="step-latency model: |predicted / measured - 1| on held-out configurations")
    for name in ("region", "size", "steps", "median", "p95"):
        table.add_column(name, justify="left" if name in ("region", "size") else "right")
    for row in report.rows:
        errors = (f"{row.median:.1%}", f"{row.p95:.1%}")
        table.add_row(row.region, row.size, f"{row.num_steps:,}", *errors)
    console.print(table)
    if report.sentinel_spread is not None:
        console.print(
            f"The machine's own speed (sentinel) spread over {report.sentinel_spread:.1%} "
            "(p95 - p5); step times are normalised by it.",
            highlight=False,
        )
    if report.step_noise is not None:
        console.print(
            f"Steps of one shape differ by {report.step_noise:.1%} from one to the next: no model "
            "can have a lower median error on this machine.",
            highlight=False,
        )
    for sentence in report.not_sampled:
        console.print(f"Not sampled: {sentence}", highlight=False)
