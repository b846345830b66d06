"""How a profile's errors look on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from profiler.collect import Profile
from profiler.latency.report import HeldOutReport


def print_profile(made: Profile, console: Console) -> None:
    """The errors of a profile's latency model, and of a predicted one what it says of the GPU."""
    print_heldout(made.report, console)
    if "silicon" in made.facts:
        _print_prediction(made, console)
    if "calibration" in made.facts:
        _print_calibration(made, console)


def _print_prediction(made: Profile, console: Console) -> None:
    silicon, blocks = made.facts["silicon"], made.facts["num_kv_blocks"]
    sources = ", ".join(f"{share:.0%} {name}" for name, share in silicon["sources"].items())
    tokens, budget = blocks * made.facts["block_size"], made.facts["resolved"]
    console.print(
        f"KV capacity: {tokens:,} tokens ({blocks:,} blocks) at a token budget of "
        f"{budget['max_num_batched_tokens']:,}. GPU times: {silicon['package']}, measured under "
        f"{silicon['data_version']} ({sources}).",
        highlight=False,
    )
    terms = ", ".join(f"{name} {value:g}" for name, value in silicon["terms"].items())
    console.print(f"Added to GPU time: {terms}.", highlight=False)


def _print_calibration(made: Profile, console: Console) -> None:
    calibration = made.facts["calibration"]
    title = f"corrected by {calibration['form']}, from measured steps; median errors"
    table = Table("region", title=title)
    for name in ("steps", "factor", "before", "after"):
        table.add_column(name, justify="right")
    for row in calibration["corrections"]:
        errors = (f"{row['before']:.1%}", f"{row['after']:.1%}")
        table.add_row(row["region"], f"{row['num_steps']:,}", f"{row['factor']:.3f}", *errors)
    console.print(table)


def print_heldout(report: HeldOutReport, console: Console) -> None:
    """Error by region against the report's reference, the machine's spread, unsampled regions."""
    table = Table(title=f"step-latency model: relative error against {report.reference}")
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
